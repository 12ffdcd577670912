// SPDX-License-Identifier: Apache-2.0
#include "sim/launched/engine_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>

#include "sim/base/figures.h"
#include "sim/base/files.h"
#include "sim/base/lower_case.h"
#include "sim/launched/argument_dumps.h"
#include "sim/launched/argument_table.h"
#include "sim/launched/shell_lexer.h"

namespace moesim {
namespace {

/// "<(printf '%s\\n' 'a: b' 'c: d')": the lines that the shell writes.
std::optional<std::string> printed_lines(const NamedArgument& argument, const std::string& file) {
  const std::string text = argument.text();
  if (!text.starts_with("<(") || !text.ends_with(')')) return std::nullopt;
  LinedText inside;
  inside.add(std::string_view(text).substr(2, text.size() - 3), argument.line);
  const auto commands = raw_commands(inside, file);
  const bool prints = !commands.empty() && commands[0].words.size() > 1 &&
                      commands[0].words[0].text == "printf" &&
                      commands[0].words[1].text.find("%s") != std::string::npos;
  if (!prints) return std::nullopt;
  std::string lines;
  for (std::size_t i = 2; i < commands[0].words.size(); ++i) {
    lines += expanded_text(commands[0].words[i], {}, file).text + "\n";
  }
  return lines;
}

/// All on the line of the argument that names them, or from `first` on.
NamedArguments from_yaml_text(const std::string& text, const std::string& file, int first) {
  NamedArguments options(file, "");
  add_yaml(text, file, false, first, options);
  return options;
}

}  // namespace

NamedArguments options_of(const LaunchFile& launch, const NamedArgument& argument) {
  const std::string& file = launch.arguments.file();
  if (const auto printed = printed_lines(argument, file)) {
    return from_yaml_text(*printed, file, argument.line);
  }
  require_known(launch, argument);
  std::string name = argument.text();
  if (name.starts_with("./")) name.erase(0, 2);
  const auto document = launch.script.documents.find(name);
  if (document != launch.script.documents.end()) {
    const LinedText& here = document->second;
    const std::string text = expanded_text(here, launch.script.variables, file).text;
    return from_yaml_text(text, file, here.line());
  }
  // A script may come from anybody: of what it names only files next to it are opened.
  const auto folder = std::filesystem::path(file).parent_path();
  const auto next_to = (folder / std::filesystem::path(name).filename()).string();
  if (!is_there(next_to)) {
    throw launch.arguments.error(argument, fmt::format("there is no file '{}'", next_to),
                                 "its options change the launch: put it next to this file");
  }
  NamedArguments options = from_yaml_text(read_file(next_to), next_to, 1);
  NamedArguments placed(file, "");
  for (NamedArgument option : options.all()) {
    option.file = next_to;
    placed.add(std::move(option));
  }
  return placed;
}

void share_experts(const LaunchFile& launch, std::int64_t group, std::string_view names,
                   const std::string& flag, LaunchedDegrees& degrees) {
  degrees.ep = count_of(launch, names, 1);
  if (group % degrees.ep != 0) {
    throw launch.arguments.error(
        *argument_of(launch, names),
        fmt::format("ep = {} does not divide {}", degrees.ep, counted(group, "GPU")),
        "experts are shared within " + flag);
  }
  degrees.etp = group / degrees.ep;
}

void set_degrees(const LaunchedDegrees& degrees, Launched& launched) {
  launched.gpus = static_cast<int>(degrees.tp * degrees.dp);
  launched.set("parallel.tp", std::to_string(degrees.tp));
  launched.set("parallel.ep", std::to_string(degrees.ep));
  // Without expert parallelism the tensor group shares the experts.
  if (degrees.etp != (degrees.ep > 1 ? 1 : degrees.tp))
    launched.set("parallel.etp", std::to_string(degrees.etp));
}

void set_policy(const std::string& policy, const std::string& assumed, Launched& launched,
                const std::string& transport) {
  launched.set("policy", policy);
  if (!transport.empty()) launched.change("policy.transport", transport);
  if (!assumed.empty()) launched.assume("policy: " + assumed);
}

namespace {

/// Whether layers of multi-token prediction, which a checkpoint has, draft: by default, or by an
/// EAGLE or a draft model that is named like them.
bool drafts_by_own_layers(const LaunchedDrafts& drafts) {
  const std::string method = lower_case(drafts.method), model = lower_case(drafts.model);
  const auto has = [](const std::string& word) {
    return word.find("mtp") != word.npos || word.find("nextn") != word.npos;
  };
  return has(method) || has(model) || (model.empty() && (method.empty() || method == "eagle"));
}

}  // namespace

void set_drafts(const LaunchedDrafts& drafts, Launched& launched) {
  constexpr double kept = 0.7;
  constexpr std::int64_t most = 15;
  const std::int64_t tokens = std::min(drafts.tokens, most);
  const std::int64_t depth = drafts.depth > 0 ? std::min(drafts.depth, tokens) : tokens;
  double accepted = 0;
  for (std::int64_t draft = 1; draft <= depth; ++draft) {
    accepted += std::pow(kept, static_cast<double>(draft));
  }
  launched.set("serving.drafts", std::to_string(tokens));
  launched.set("serving.accepted", fmt::format("{:.2f}", accepted),
               "assumed: each draft is kept in 70 % of cases if the one before is");
  if (drafts_by_own_layers(drafts)) return;
  launched.assume(fmt::format(
      "serving.drafts: by layers of multi-token prediction if the model has some, not by {}",
      drafts.model.empty() ? drafts.method : drafts.model));
}

void set_rebalance(std::int64_t interval, Launched& launched) {
  launched.set("serving.engine.rebalance", fmt::format("{{interval: {}}}", interval));
}

void set_kv_type(const std::string& type, Launched& launched) {
  const std::string word = lower_case(type);
  const auto has = [&](const char* part) { return word.find(part) != word.npos; };
  const bool eight = has("fp8"), small = !eight && (has("int8") || has("fp4") || has("int4"));
  const bool sixteen = word == "auto" || has("16") || word == "half";
  launched.set("serving.kv", eight || small ? "fp8" : "bf16");
  if (eight || sixteen) return;
  launched.assume(fmt::format("serving.kv: {} in place of {}{}", small ? "fp8" : "bf16", type,
                              has("int8") ? ", of its size"
                              : has("4")  ? ", which takes half of that"
                                          : ""));
}

void take_memory_share(const LaunchFile& launch, std::string_view names, const char* of,
                       Launched& launched) {
  const std::string share = word_of(launch, names, "");
  if (share.empty()) return;
  launched.set("serving.engine.memory", fmt::format("{{share: {}, of: {}}}", share, of));
}

bool set_weights(const std::string& quantization, Launched& launched) {
  const std::string word = lower_case(quantization);
  const auto has = [&](const char* part) { return word.find(part) != word.npos; };
  if (word == "compressed-tensors") return true;  // as its checkpoint says
  const bool eight_bit_integers = !has("fp8") && (has("int8") || has("w8a") || has("8bit"));
  const bool four_bit_integers = has("int4") || has("w4a16") || has("awq") || has("gptq");
  if (eight_bit_integers) launched.assume("serving.precision: fp8 in place of int8, of its size");
  const char* precision = has("mxfp4")                     ? "mxfp4"
                          : has("fp4")                     ? "nvfp4"
                          : has("fp8")                     ? "fp8"
                          : eight_bit_integers             ? "fp8"
                          : has("bf16") || has("bfloat16") ? "bf16"
                          : four_bit_integers              ? "int4"
                                                           : nullptr;
  if (precision != nullptr) launched.set("serving.precision", precision);
  return precision != nullptr;
}

void take_quantization(const NamedArgument& argument, Launched& launched) {
  if (argument.text() == "false") return;
  if (!set_weights(argument.text(), launched)) return launched.leave_out(argument);
  const LaunchedKey* precision = launched.find("serving.precision");
  if (precision == nullptr || precision->value != "int4") return;
  launched.assume(fmt::format(
      "serving.precision: attention and dense layers in bf16, which {} has in 4 bits, too",
      argument.text()));
}

void set_requests(std::int64_t ranks, std::int64_t most_tokens, std::int64_t whole_prompts,
                  Launched& launched) {
  constexpr std::int64_t input = 1024, output = 256, per_rank = 16, least = 32;
  const std::int64_t at_once = std::max(per_rank * ranks, least);
  launched.limits = {ranks, most_tokens, whole_prompts};
  const LaunchedKey* drafts = launched.find("serving.drafts");
  const std::int64_t of_decode = 1 + (drafts == nullptr ? 0 : std::stoll(drafts->value));
  const std::int64_t most_prompt =
      std::max(whole_prompts / 2, whole_prompts - at_once / ranks * of_decode);
  const std::int64_t most = most_tokens > 0 ? most_tokens : usual_request_tokens;
  const std::int64_t one = 1;
  const std::int64_t prompt = std::max(most * 3 / 4, one);
  const auto lengths = [&](std::int64_t mean, std::int64_t limit) {
    mean = std::min(mean, std::max(limit / 2, one));
    return fmt::format("{{mean: {}, spread: {}, most: {}}}", mean, std::max(mean / 2, one), limit);
  };
  launched.set(
      "serving.requests",
      fmt::format("{{count: {}, concurrency: {}, seed: 1, input: {}, output: {}}}", 2 * at_once,
                  at_once, lengths(input, most_prompt > 0 ? std::min(most_prompt, prompt) : prompt),
                  lengths(output, std::max(most / 4, one))),
      "assumed: no launch says it; {file: requests.jsonl} plays yours");
}

void set_pool(const std::string& pool, Launched& launched) {
  launched.set("serving.instances", "{prefill: 1, decode: 1}");
  launched.assume(fmt::format(
      "the launch is of the pool for {}: the other one is alike unless serving.decode says more",
      pool));
}

void refuse_stages(const LaunchFile& launch, std::string_view names) {
  if (count_of(launch, names, 1) == 1) return;
  const NamedArgument& at = *argument_of(launch, names);
  throw launch.arguments.error(at, fmt::format("'{}': a serving engine in stages", at.written),
                               "pipelines of engines are not modelled: tensor, data and expert "
                               "parallelism are");
}

}  // namespace moesim
