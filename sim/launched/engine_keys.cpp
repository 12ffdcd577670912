// SPDX-License-Identifier: Apache-2.0
#include "sim/launched/engine_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/base/counted.h"
#include "sim/base/lower_case.h"

namespace moesim {

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

void set_drafts(std::int64_t drafts, Launched& launched) {
  constexpr double kept = 0.7;
  constexpr std::int64_t most = 15;
  double accepted = 0;
  for (std::int64_t draft = 1; draft <= std::min(drafts, most); ++draft) {
    accepted += std::pow(kept, static_cast<double>(draft));
  }
  launched.set("serving.drafts", std::to_string(std::min(drafts, most)));
  launched.set("serving.accepted", fmt::format("{:.2f}", accepted),
               "assumed: each draft is kept in 70 % of cases if the one before is");
}

void set_rebalance(std::int64_t interval, Launched& launched) {
  launched.set("serving.engine.rebalance", fmt::format("{{interval: {}}}", interval));
}

void set_kv_type(const std::string& type, Launched& launched) {
  const bool eight = lower_case(type).find("fp8") != std::string::npos;
  launched.set("serving.kv", eight ? "fp8" : "bf16");
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

void set_requests(std::int64_t ranks, std::int64_t most_tokens, std::int64_t most_prompt,
                  Launched& launched) {
  constexpr std::int64_t input = 1024, output = 256, per_rank = 16, least = 32;
  const std::int64_t at_once = std::max(per_rank * ranks, least);
  launched.limits = {ranks, most_tokens, most_prompt};
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
