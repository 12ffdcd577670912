// SPDX-License-Identifier: Apache-2.0
// What Megatron-LM's arguments mean together.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "sim/base/error.h"
#include "sim/base/lower_case.h"
#include "sim/launched/software_tables.h"
#include "sim/model/host_model.h"
#include "sim/model/offload.h"
#include "sim/model/recompute.h"

namespace moesim {
namespace {

/// "a,b c" and several values: all words.
std::vector<std::string> words_in(const NamedArgument* argument) {
  std::vector<std::string> words;
  if (argument == nullptr || argument->text() == "false") return words;
  std::string word;
  for (const char c : argument->text() + " ") {
    if (c != ' ' && c != ',') {
      word += c;
    } else if (!word.empty()) {
      words.push_back(std::exchange(word, ""));
    }
  }
  return words;
}

/// Whether the software says it by itself if nobody does: YAML is read by recipes with defaults.
bool is_open(const LaunchFile& launch, std::string_view names) {
  return launch.yaml && argument_of(launch, names) == nullptr;
}

std::string policy_of(const LaunchFile& launch, Launched& launched) {
  constexpr auto names = "moe-token-dispatcher-type";
  const bool deepep = is_on(launch, "moe-enable-deepep");
  const std::string type = word_of(launch, names, deepep ? "flex" : "");
  if (type == "flex") {
    const std::string backend = word_of(launch, "moe-flex-dispatcher-backend", "deepep");
    return backend == "hybridep" ? "hybrid-ep" : "deepep-normal";
  }
  if (type == "alltoall" || type == "alltoall_seq") return "megatron";
  if (type.empty()) {
    launched.assume("policy: no --moe-token-dispatcher-type, so Megatron-LM's default, allgather");
  } else if (type != "allgather") {
    throw launch.arguments.error(*argument_of(launch, names),
                                 fmt::format("there is no dispatcher '{}'", type),
                                 "allgather, alltoall, flex");
  }
  return "megatron-allgather";
}

void take_experts(const LaunchFile& launch, Launched& launched) {
  if (count_of(launch, "num-experts num-moe-experts", 0, 0) == 0) return;
  const std::string policy = policy_of(launch, launched);
  launched.set("policy", policy);
  if (is_on(launch, "moe-router-force-load-balancing")) launched.set("routing", "balanced");
  const NamedArgument* factor = argument_of(launch, "moe-expert-capacity-factor");
  if (factor == nullptr || factor->text() == "false") return;
  require_known(launch, *factor);
  if (word_of(launch, "moe-token-drop-policy", "probs") == "probs") {
    launched.assume(
        "capacity: as many choices are dropped by position as by probability, which most traces "
        "lack");
  }
  launched.change("policy.routing",
                  fmt::format("{{kind: capacity, rule: megatron, factor: {}, drop: position}}",
                              factor->text()));
  if (!is_on(launch, "moe-pad-expert-input-to-capacity")) return;
  if (policy == "megatron") {
    launched.change("policy.dispatch",
                    fmt::format("{{kind: padded, padding: capacity, rule: megatron, factor: {}}}",
                                factor->text()));
  } else {
    launched.leave_out(*argument_of(launch, "moe-pad-expert-input-to-capacity"));
  }
}

void take_recompute(const LaunchFile& launch, Launched& launched) {
  constexpr auto names = "recompute-granularity";
  if (is_open(launch, names)) return;
  const bool selective = is_on(launch, "recompute-activations");
  const std::string granularity = word_of(launch, names, selective ? "selective" : "none");
  if (granularity == "full") {
    launched.set("recompute", "full");
    const NamedArgument* layers = argument_of(launch, "recompute-num-layers");
    if (word_of(launch, "recompute-method", "uniform") == "block" && layers != nullptr) {
      launched.leave_out(*layers);
      launched.assume("recompute: full of all layers");
    }
    return;
  }
  if (granularity != "selective") return launched.set("recompute", "none");
  auto modules = words_in(argument_of(launch, "recompute-modules"));
  if (modules.empty()) modules = {"core_attn"};
  for (const std::string& module : modules) {
    const auto& known = recompute_module_names();
    if (std::ranges::find(known, module) != known.end()) continue;
    throw launch.arguments.error(*argument_of(launch, "recompute-modules"),
                                 fmt::format("no module '{}' is recomputed here", module),
                                 did_you_mean(module, known));
  }
  launched.set("recompute", fmt::format("[{}]", fmt::join(modules, ", ")));
}

void take_offload(const LaunchFile& launch, Launched& launched) {
  if (!is_on(launch, "fine-grained-activation-offloading")) return;
  const NamedArgument* stated = argument_of(launch, "offload-modules");
  const auto modules = words_in(stated);
  for (const std::string& module : modules) {
    const auto& known = offload_module_names();
    if (std::ranges::find(known, module) != known.end()) continue;
    throw launch.arguments.error(*stated, fmt::format("no module '{}' is offloaded here", module),
                                 did_you_mean(module, known));
  }
  if (!modules.empty()) launched.set("offload", fmt::format("[{}]", fmt::join(modules, ", ")));
}

/// The format of NeMo's recipes, "bf16_with_mxfp8_mixed".
std::string format_of_recipe(const std::string& recipe) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 7> marks = {{
      {"mxfp8", "mxfp8"},
      {"nvfp4", "nvfp4"},
      {"subchannel", "fp8-blockwise"},
      {"blockwise", "fp8-blockwise"},
      {"fp8", "fp8"},
      {"bf16", "bf16"},
      {"16", "fp16"},
  }};
  for (const auto& [mark, format] : marks) {
    if (recipe.find(mark) != recipe.npos) return std::string(format);
  }
  return "fp32";
}

std::string format_of(const LaunchFile& launch) {
  constexpr auto recipes = "mixed-precision mixed-precision-recipe precision";
  if (!word_of(launch, "fp4-format fp4", "").empty()) return "nvfp4";
  const std::string fp8 = word_of(launch, "fp8-format fp8", "");
  if (!fp8.empty()) {
    const std::string recipe = word_of(launch, "fp8-recipe", "delayed");
    return recipe == "blockwise" ? "fp8-blockwise" : recipe == "mxfp8" ? "mxfp8" : "fp8";
  }
  const std::string recipe = word_of(launch, recipes, "");
  if (!recipe.empty()) return format_of_recipe(lower_case(recipe));
  if (is_on(launch, "bf16") || launch.yaml) return "bf16";
  return is_on(launch, "fp16") ? "fp16" : "fp32";
}

void take_precision(const LaunchFile& launch, Launched& launched) {
  const std::string format = format_of(launch);
  const bool limited = is_on(launch, "first-last-layers-bf16") && format != "bf16";
  if (!limited) return launched.set("precision", format);
  launched.set("precision",
               fmt::format("{{format: {}, bf16_layers: {{first: {}, last: {}}}}}", format,
                           count_of(launch, "num-layers-at-start-in-bf16", 1, 0),
                           count_of(launch, "num-layers-at-end-in-bf16", 1, 0)));
}

int bytes_of_type(const LaunchFile& launch, const char* name) {
  const std::string type = word_of(launch, name, "fp32");
  const bool half = type.find("16") != type.npos;
  return half ? 2 : type.find('8') != type.npos ? 1 : 4;
}

void take_zero(const LaunchFile& launch, Launched& launched) {
  const std::string sharding = word_of(launch, "data-parallel-sharding-strategy", "no_shard");
  const bool fsdp = is_on(launch, "use-megatron-fsdp use-custom-fsdp");
  if (is_on(launch, "use-torch-fsdp2") || (fsdp && sharding == "optim_grads_params")) {
    launched.set("zero", "3");
  } else if (fsdp && sharding == "optim_grads") {
    launched.set("zero", "2");
  } else if (!is_open(launch, "use-distributed-optimizer")) {
    const bool shares = is_on(launch, "use-distributed-optimizer") || (fsdp && sharding == "optim");
    launched.set("zero", shares ? "1" : "0");
  }
}

void take_state(const LaunchFile& launch, Launched& launched) {
  take_zero(launch, launched);
  if (word_of(launch, "optimizer", "adam").find("muon") != std::string::npos) {
    launched.set("optimizer", "muon");
  }
  if (is_on(launch, "grad-reduce-in-bf16")) launched.set("gradient_bytes", "2");
  if (is_on(launch, "grad-reduce-in-fp32")) launched.set("gradient_bytes", "4");
  if (is_on(launch, "use-precision-aware-optimizer")) {
    const int bytes = bytes_of_type(launch, "main-params-dtype") +
                      bytes_of_type(launch, "exp-avg-dtype") +
                      bytes_of_type(launch, "exp-avg-sq-dtype");
    launched.set("optimizer_bytes", std::to_string(bytes));
  }
}

void take_overlap(const LaunchFile& launch, Launched& launched) {
  const auto text = [&](const char* name) { return is_on(launch, name) ? "true" : "false"; };
  const LaunchedKey* zero = launched.find("zero");
  if (!is_open(launch, "overlap-grad-reduce")) {
    launched.set("overlap.gradients", text("overlap-grad-reduce"));
  }
  if ((zero == nullptr || zero->value != "0") && !is_open(launch, "overlap-param-gather")) {
    launched.set("overlap.parameters", text("overlap-param-gather"));
  }
  const bool chunks = launched.find("parallel.vpp") != nullptr;
  if (is_on(launch, "overlap-moe-expert-parallel-comm")) {
    launched.set("pipeline", chunks ? "combined-interleaved" : "combined-1f1b");
    if (is_on(launch, "delay-wgrad-compute")) launched.set("overlap.delay_wgrad", "true");
  }
}

void take_graphs(const LaunchFile& launch, Launched& launched) {
  const NamedArgument* scope = argument_of(launch, "cuda-graph-modules cuda-graph-scope");
  const NamedArgument* on = argument_of(launch, "enable-cuda-graph external-cuda-graph");
  const std::string kind = word_of(launch, "cuda-graph-impl", "none");
  if (kind == "none" && (on == nullptr || on->text() == "false")) return;
  const auto modules = words_in(scope);
  const auto& known = graph_module_names();
  const bool all = !modules.empty() && std::ranges::all_of(modules, [&](const auto& module) {
    return std::ranges::find(known, module) != known.end();
  });
  if (all) return launched.set("host.graphs", fmt::format("[{}]", fmt::join(modules, ", ")));
  launched.leave_out(*(scope != nullptr && !modules.empty() ? scope
                       : on != nullptr                      ? on
                                       : argument_of(launch, "cuda-graph-impl")));
}

}  // namespace

void read_megatron(const LaunchFile& launch, Launched& launched) {
  const bool dashes = std::ranges::any_of(
      launch.arguments.all(), [](const NamedArgument& a) { return a.written.starts_with('-'); });
  launched.set("software", launch.yaml && !dashes ? "megatron-bridge" : "megatron-core");
  take_experts(launch, launched);
  read_megatron_sizes(launch, launched);
  read_megatron_model(launch, launched);
  take_precision(launch, launched);
  take_recompute(launch, launched);
  take_offload(launch, launched);
  take_state(launch, launched);
  take_overlap(launch, launched);
  take_graphs(launch, launched);
}

}  // namespace moesim
