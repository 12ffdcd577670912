// SPDX-License-Identifier: Apache-2.0
#include "sim/launched/launched.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/base/files.h"
#include "sim/launched/argument_dumps.h"
#include "sim/launched/engine_keys.h"
#include "sim/launched/shell_expansion.h"
#include "sim/launched/software_tables.h"

namespace moesim {
namespace {

void set_in(std::vector<LaunchedKey>& keys, const std::string& path, std::string value,
            std::string comment) {
  const auto same = std::ranges::find(keys, path, &LaunchedKey::path);
  LaunchedKey key{path, std::move(value), std::move(comment)};
  if (same != keys.end()) {
    *same = std::move(key);
  } else {
    keys.push_back(std::move(key));
  }
}

/// The model by its name: a flag, or the first word that belongs to none.
void take_model(const LaunchFile& launch, Launched& launched) {
  const NamedArgument* argument = argument_of(launch, "model-path model model-tag");
  if (argument != nullptr && !argument->values.empty()) {
    require_known(launch, *argument);
    launched.model = argument->text();
    launched.model_line = argument->line;
  } else if (!launch.others.empty()) {
    NamedArgument word{"model",
                       {launch.others.front().text},
                       launch.others.front().line(),
                       launch.others.front().text};
    require_known(launch, word);
    launched.model = word.text();
    launched.model_line = word.line;
  }
}

/// Lines that are no commands, and words such as "$@", behind which there may be more arguments.
void note_unknown_words(const LaunchFile& launch, Launched& launched) {
  for (const std::string& doubt : launch.script.doubts) launched.assume(doubt);
  for (const LinedText& word : launch.others) {
    if (!has_unknown(word.text) || word.text == launched.model) continue;
    const auto found = launch.script.variables.find(unknown_name(word.text));
    const bool set = found != launch.script.variables.end() && !found->second.undecided.empty();
    if (set) require_known(launch, {"", {word.text}, word.line(), word.text});
    launched.assume(fmt::format("{} in line {} is empty: nothing sets it", word.text, word.line()));
  }
}

}  // namespace

void Launched::set(const std::string& path, std::string value, std::string comment) {
  set_in(keys, path, std::move(value), std::move(comment));
}

void Launched::change(const std::string& path, std::string value, std::string comment) {
  set_in(changes, path, std::move(value), std::move(comment));
}

const LaunchedKey* Launched::find(const std::string& path) const {
  const auto found = std::ranges::find(keys, path, &LaunchedKey::path);
  return found == keys.end() ? nullptr : &*found;
}

void Launched::leave_out(const NamedArgument& argument) {
  if (std::ranges::find(not_simulated, argument.written) == not_simulated.end()) {
    not_simulated.push_back(argument.written);
  }
}

ArgumentTable table_of(LaunchSoftware software) {
  constexpr std::array tables = {megatron_table, vllm_table, sglang_table, trtllm_table};
  return tables[static_cast<std::size_t>(software)]();
}

namespace {

Launched launched_of(LaunchFile launch, const std::string& file) {
  if (launch.software == LaunchSoftware::vllm) complete_vllm(launch);
  if (launch.software == LaunchSoftware::trtllm) complete_trtllm(launch);
  constexpr std::array readers = {read_megatron, read_vllm, read_sglang, read_trtllm};
  Launched launched;
  launched.file = file;
  launched.software = name_of(launch.software);
  readers[static_cast<std::size_t>(launch.software)](launch, launched);
  take_arguments(table_of(launch.software), launch, launched);
  if (launched.serving) take_model(launch, launched);
  note_unknown_words(launch, launched);
  return launched;
}

}  // namespace

Launched launch_of_text(const std::string& text, const std::string& file) {
  if (const auto servers = two_servers_in(text, file)) {
    return pools_of(launched_of(servers->prompts, file), launched_of(servers->answers, file),
                    *servers);
  }
  return launched_of(launch_file_of(text, file), file);
}

Launched read_launch(const std::string& path) { return launch_of_text(read_file(path), path); }

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
