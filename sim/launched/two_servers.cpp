// SPDX-License-Identifier: Apache-2.0
#include "sim/launched/two_servers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/launched/argument_dumps.h"
#include "sim/launched/engine_keys.h"

namespace moesim {
namespace {

constexpr std::string_view of_prompts = "context-servers.", of_answers = "generation-servers.";

/// The keys of one server and those around both.
LaunchFile server_of(const NamedArguments& all, std::string_view own, std::string_view other,
                     const std::string& text) {
  LaunchFile launch;
  launch.software = LaunchSoftware::trtllm;
  launch.dump = launch.yaml = true;
  launch.arguments = NamedArguments(all.file(), text);
  launch.launcher = NamedArguments(all.file(), text);
  for (NamedArgument argument : all.all()) {
    if (argument.name.starts_with(other)) continue;
    if (argument.name.starts_with(own)) argument.name.erase(0, own.size());
    launch.arguments.add(std::move(argument));
  }
  return launch;
}

bool is_of_both(const std::string& path) {
  return path == "serving.requests" || path == "serving.instances";
}

}  // namespace

std::optional<TwoServers> two_servers_in(const std::string& text, const std::string& file) {
  const bool yaml = file.ends_with(".yaml") || file.ends_with(".yml");
  const bool both =
      text.find("context_servers:") != text.npos && text.find("generation_servers:") != text.npos;
  if (!yaml || !both) return std::nullopt;
  NamedArguments all(file, text);
  add_yaml(text, file, false, 1, all);
  TwoServers servers{server_of(all, of_prompts, of_answers, text),
                     server_of(all, of_answers, of_prompts, text)};
  servers.prompt_instances = count_of(servers.prompts, "num-instances", 1);
  servers.answer_instances = count_of(servers.answers, "num-instances", 1);
  return servers;
}

Launched pools_of(Launched prompts, const Launched& answers, const TwoServers& servers) {
  const std::vector<LaunchedKey> of_first = prompts.keys;
  prompts.set("serving.instances", fmt::format("{{prefill: {}, decode: {}}}",
                                               servers.prompt_instances, servers.answer_instances));
  for (const LaunchedKey& key : answers.keys) {
    const LaunchedKey* same = prompts.find(key.path);
    if (is_of_both(key.path) || (same != nullptr && same->value == key.value)) continue;
    prompts.set("serving.decode." + key.path, key.value, key.comment);
  }
  std::vector<std::string> kept;
  for (const LaunchedKey& key : of_first) {
    if (is_of_both(key.path) || answers.find(key.path) != nullptr) continue;
    if (key.path == "parallel.etp") {
      const bool shared = answers.find("parallel.ep")->value == "1";
      prompts.set("serving.decode.parallel.etp", shared ? answers.find("parallel.tp")->value : "1");
    } else {
      kept.push_back(key.path);
    }
  }
  if (!kept.empty()) {
    prompts.assume(
        fmt::format("generation_servers do not say {}: as context_servers", fmt::join(kept, ", ")));
  }
  if (answers.limits.ranks > prompts.limits.ranks) {
    set_requests(answers.limits.ranks, prompts.limits.tokens, prompts.limits.whole_prompts,
                 prompts);
  }
  for (const std::string& what : answers.assumed) prompts.assume("generation_servers: " + what);
  for (const std::string& what : answers.not_simulated) {
    const bool known =
        std::ranges::find(prompts.not_simulated, what) != prompts.not_simulated.end();
    if (!known) prompts.not_simulated.push_back(what);
  }
  prompts.decode = {answers.gpus, answers.policy_in_domain};
  return prompts;
}

}  // namespace moesim
