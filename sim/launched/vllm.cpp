// SPDX-License-Identifier: Apache-2.0
// Arguments of vLLM (engine/arg_utils.py), as flags and as its log prints them.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "sim/base/error.h"
#include "sim/base/figures.h"
#include "sim/launched/argument_dumps.h"
#include "sim/launched/engine_keys.h"
#include "sim/launched/software_tables.h"

namespace moesim {
namespace {

constexpr ArgumentRow vllm_rows[] = {
    {"tensor-parallel-size tp pipeline-parallel-size pp data-parallel-size dp all2all-backend "
     "kv-cache-dtype quantization q decode-context-parallel-size dcp model model-tag "
     "eplb-config num-redundant-experts eplb-step-interval eplb-window-size speculative-config "
     "compilation-config cc O kv-transfer-config max-model-len gpu-memory-utilization "
     "eplb-config.* "
     "speculative-config.* compilation-config.* kv-transfer-config.* dtype config "
     "dbo-decode-token-threshold dbo-prefill-token-threshold num-gpu-blocks-override",
     ArgumentUse::read},
    {"enable-expert-parallel ep enable-eplb enforce-eager no-enforce-eager enable-dbo",
     ArgumentUse::read, "", Takes::none},
    {"max-num-batched-tokens", ArgumentUse::count, "serving.engine.max_tokens"},
    {"max-num-seqs", ArgumentUse::count, "serving.engine.max_sequences"},
    {"block-size", ArgumentUse::count, "serving.engine.kv.block"},
    {"enable-prefix-caching", ArgumentUse::on, "serving.engine.kv.prefix_cache", Takes::none},
    {"no-enable-prefix-caching", ArgumentUse::off, "serving.engine.kv.prefix_cache", Takes::none},
    {"enable-chunked-prefill", ArgumentUse::on, "serving.engine.chunked_prefill", Takes::none},
    {"no-enable-chunked-prefill", ArgumentUse::off, "serving.engine.chunked_prefill", Takes::none},
    {"async-scheduling", ArgumentUse::on, "serving.engine.plans_ahead", Takes::none},
    {"no-async-scheduling", ArgumentUse::off, "serving.engine.plans_ahead", Takes::none},
    {"enable-lora cpu-offload-gb disable-custom-all-reduce no-enable-flashinfer-autotune "
     "enable-sleep-mode",
     ArgumentUse::left_out, "", Takes::none},
    {"cpu-offload-gb swap-space", ArgumentUse::left_out, "0 4"},
    {"dbo-* attention-backend moe-backend prefill-context-parallel-size pcp "
     "max-num-partial-prefills scheduling-policy num-scheduler-steps kv-offloading-size "
     "max-lora-rank ubatch-size long-prefill-token-threshold hf-overrides hf-overrides.* "
     "hf-config-path",
     ArgumentUse::left_out, "1 auto fcfs {}"},
    {"trust-remote-code disable-log-requests disable-log-stats enable-auto-tool-choice headless "
     "no-enable-log-requests enable-log-requests disable-uvicorn-access-log skip-tokenizer-init "
     "data-parallel-hybrid-lb data-parallel-external-lb language-model-only "
     "enable-prompt-tokens-details enable-server-load-tracking enable-log-outputs "
     "enable-return-routed-experts enable-force-include-usage data-parallel-multi-port-external-lb",
     ArgumentUse::ignored, "", Takes::none},
    {"served-model-name middleware allowed-* lora-modules", ArgumentUse::ignored, "", Takes::list},
    {"host port uvicorn-* ssl-* api-key* api-server-count asc chat-template* response-role seed "
     "tokenizer* download-dir load-format model-loader-* revision code-revision hf-* "
     "tool-call-parser reasoning-parser* tool-parser-plugin guided-* distributed-executor-backend "
     "data-parallel-* otlp-* max-log-len limit-mm-per-prompt mm-* generation-config "
     "override-generation-config rope-* max-logprobs logits-processors structured-* nnodes "
     "node-rank master-* root-path return-tokens-* log-* trust-remote-code-revision "
     "enable-auto-tool-choice-* worker-* device task runner convert safetensors-* "
     "disable-mm-* skip-mm-profiling kv-events-config",
     ArgumentUse::ignored},
};

/// The value of JSON under any of these names; 0 if there is none.
std::int64_t eplb_count(const LaunchFile& launch, const char* member, const char* flag,
                        std::int64_t absent) {
  return count_of(launch, fmt::format("eplb-config.{} {}", member, flag), absent, 0);
}

void take_dispatch_of_vllm(const LaunchFile& launch, const LaunchedDegrees& d, Launched& launched) {
  struct Backend {
    std::string_view name, policy, transport;
    const char* assumed;
  };
  constexpr std::array<Backend, 10> backends = {{
      {"deepep_low_latency", "deepep-low-latency", "", ""},
      {"deepep_high_throughput", "deepep-normal", "", ""},
      {"allgather_reducescatter", "megatron-allgather", "", ""},
      {"naive", "megatron-allgather", "", "naive broadcasts move more than its all-gather"},
      {"pplx", "deepep-low-latency", "pplx", ""},
      {"mori", "mori", "", ""},
      {"flashinfer_all2allv", "nvlink-one-sided", "", "for flashinfer_all2allv"},
      {"flashinfer_nvlink_one_sided", "nvlink-one-sided", "", ""},
      {"flashinfer_nvlink_two_sided", "nvlink-one-sided", "", "for the two-sided kernels"},
      {"nixl_ep", "deepep-low-latency", "", "for nixl_ep, whose kernels are of that kind"},
  }};
  if (d.ep == 1 || d.dp == 1) {
    return set_policy("megatron-allgather",
                      d.ep == 1 ? "" : "one rank of attention: all GPUs have all tokens", launched);
  }
  std::string name = word_of(launch, "all2all-backend", "");
  const auto environment = launch.environment.find("VLLM_ALL2ALL_BACKEND");
  if (name.empty() && environment != launch.environment.end()) name = environment->second.text;
  if (name.empty()) {
    return set_policy("megatron-allgather",
                      "no --all2all-backend, so vLLM's default, allgather_reducescatter", launched);
  }
  const auto found = std::ranges::find(backends, std::string_view(name), &Backend::name);
  if (found != backends.end()) {
    return set_policy(std::string(found->policy), found->assumed, launched,
                      std::string(found->transport));
  }
  std::vector<std::string> known;
  for (const Backend& backend : backends) known.emplace_back(backend.name);
  const NamedArgument* at = argument_of(launch, "all2all-backend");
  const std::string message = fmt::format("no all-to-all backend '{}' is known", name);
  if (at == nullptr) throw error_in(launch.arguments.file(), message, did_you_mean(name, known));
  throw launch.arguments.error(*at, message, did_you_mean(name, known));
}

void take_balancer_of_vllm(const LaunchFile& launch, const LaunchedDegrees& d, Launched& launched) {
  if (!is_on(launch, "enable-eplb") || d.ep == 1) return;
  launched.redundant = eplb_count(launch, "num-redundant-experts", "num-redundant-experts", 0);
  const std::int64_t interval = eplb_count(launch, "step-interval", "eplb-step-interval", 3000);
  set_rebalance(interval, launched);
  launched.balancer = fmt::format("kind: vllm, interval: {}, window: {}{}", interval,
                                  eplb_count(launch, "window-size", "eplb-window-size", 1000),
                                  is_on(launch, "eplb-config.use-async")
                                      ? ", migration: asynchronous, layers_per_step: 1"
                                      : "");
}

void take_graphs_of_vllm(const LaunchFile& launch, Launched& launched) {
  if (is_on(launch, "enforce-eager") ||
      word_of(launch, "compilation-config.cudagraph-mode", "") == "NONE") {
    return launched.set("serving.graphs", "false");
  }
  const NamedArgument* sizes =
      argument_of(launch, "compilation-config.cudagraph-capture-sizes cuda-graph-sizes");
  if (sizes != nullptr && sizes->values.size() > 1) {
    std::vector<std::int64_t> all;
    for (const std::string& value : sizes->values) {
      NamedArgument one = *sizes;
      one.values = {value};
      all.push_back(number_of(launch, one));
    }
    std::ranges::sort(all);
    launched.set("serving.engine.graph_sizes", fmt::format("[{}]", fmt::join(all, ", ")));
  }
  for (const NamedArgument& argument : launch.arguments.all()) {
    const bool config = argument.name.starts_with("compilation-config.");
    if (config && &argument != sizes && argument.text() != "false") launched.leave_out(argument);
  }
}

/// Batches of few tokens are not split (config/parallel.py).
void take_overlap_of_vllm(const LaunchFile& launch, Launched& launched) {
  if (!is_on(launch, "enable-dbo")) return;
  launched.set("serving.overlap", "two-batch");
  constexpr auto decode = "dbo-decode-token-threshold", prompts = "dbo-prefill-token-threshold";
  if (argument_of(launch, decode) == nullptr && argument_of(launch, prompts) == nullptr) return;
  launched.set("serving.overlap_from",
               fmt::format("{{decode: {}, prompts: {}}}", count_of(launch, decode, 32, 0),
                           count_of(launch, prompts, 512, 0)));
}

void take_key_sharing_of_vllm(const LaunchFile& launch, const LaunchedDegrees& d,
                              Launched& launched) {
  constexpr auto names = "decode-context-parallel-size dcp";
  const std::int64_t dcp = count_of(launch, names, 1);
  if (d.tp % dcp != 0) {
    throw launch.arguments.error(
        *argument_of(launch, names), fmt::format("dcp = {} does not divide tp = {}", dcp, d.tp),
        "keys are shared within a tensor group, as vLLM asks for: --tensor-parallel-size");
  }
  if (dcp > 1) launched.set("serving.dcp", std::to_string(dcp));
}

/// Tokens of a request at most; 0: the launch does not say.
std::int64_t longest_of_vllm(const LaunchFile& launch, Launched& launched) {
  const std::string length = word_of(launch, "max-model-len", "0");
  const bool by_memory = length == "auto" || length == "-1";
  const std::int64_t longest = by_memory ? 0 : count_of(launch, "max-model-len", 0, 0);
  const NamedArgument* chunks = argument_of(launch, "enable-chunked-prefill");
  const bool whole = is_on(launch, "no-enable-chunked-prefill") ||
                     (chunks != nullptr && !is_on(launch, "enable-chunked-prefill"));
  const std::int64_t pass = whole ? count_of(launch, "max-num-batched-tokens", 0) : 0;
  if (pass == 0 || (longest > 0 && longest <= pass)) return longest;
  launched.assume(
      fmt::format("requests of at most {}: without chunked prefill a pass takes a whole prompt",
                  counted(pass, "token")));
  return pass;
}

void take_drafts_of_vllm(const LaunchFile& launch, Launched& launched) {
  LaunchedDrafts drafts;
  drafts.tokens = count_of(launch, "speculative-config.num-speculative-tokens", 0);
  drafts.method = word_of(launch, "speculative-config.method", "");
  drafts.model = word_of(launch, "speculative-config.model", "");
  if (drafts.tokens > 0) set_drafts(drafts, launched);
}

void take_blocks_of_vllm(const LaunchFile& launch, Launched& launched) {
  constexpr std::int64_t usual_block = 16;
  const std::int64_t blocks = count_of(launch, "num-gpu-blocks-override", 0);
  if (blocks == 0) return;
  const std::int64_t block = count_of(launch, "block-size", usual_block);
  launched.set("serving.kv_tokens", std::to_string(blocks * block),
               fmt::format("{} of {}", counted(blocks, "block"), counted(block, "token")));
}

void take_pool_of_vllm(const LaunchFile& launch, Launched& launched) {
  const std::string role = word_of(launch, "kv-transfer-config.kv-role", "");
  if (role == "kv_producer") return set_pool("prompts", launched);
  if (role == "kv_consumer") return set_pool("answers", launched);
  if (role.empty()) return;
  launched.assume("one pool: --kv-transfer-config does not say whether it is for prompts");
}

}  // namespace

ArgumentTable vllm_table() { return vllm_rows; }

void complete_vllm(LaunchFile& launch) {
  const LaunchFile given = launch;
  if (const NamedArgument* config = given.arguments.find("config")) {
    const NamedArguments options = options_of(given, *config);
    for (const NamedArgument& option : options.all()) {
      if (!launch.arguments.has(option.name)) launch.arguments.add(option);
    }
  }
  // Members of values in JSON become arguments of their own.
  for (const char* name :
       {"eplb-config", "speculative-config", "compilation-config", "cc", "kv-transfer-config"}) {
    const NamedArgument* argument = given.arguments.find(name);
    if (argument == nullptr || !argument->text().starts_with('{')) continue;
    NamedArgument of = *argument;
    if (of.name == "cc") of.name = "compilation-config";
    add_members(of.text(), of, launch.arguments);
  }
}

void read_vllm(const LaunchFile& launch, Launched& launched) {
  launched.serving = true;
  refuse_stages(launch, "pipeline-parallel-size pp");
  LaunchedDegrees d;
  d.tp = count_of(launch, "tensor-parallel-size tp", 1);
  d.dp = count_of(launch, "data-parallel-size dp", 1);
  const bool experts = is_on(launch, "enable-expert-parallel ep");
  d.ep = experts ? d.tp * d.dp : 1;
  d.etp = experts ? 1 : d.tp * d.dp;
  take_dispatch_of_vllm(launch, d, launched);
  set_degrees(d, launched);
  take_balancer_of_vllm(launch, d, launched);
  launched.set("serving.engine.preset", "vllm");
  take_memory_share(launch, "gpu-memory-utilization", "all", launched);
  const NamedArgument* quantization = argument_of(launch, "quantization q");
  if (quantization != nullptr) take_quantization(*quantization, launched);
  take_blocks_of_vllm(launch, launched);
  set_kv_type(word_of(launch, "kv-cache-dtype", "auto"), launched);
  take_graphs_of_vllm(launch, launched);
  take_overlap_of_vllm(launch, launched);
  take_key_sharing_of_vllm(launch, d, launched);
  take_drafts_of_vllm(launch, launched);
  take_pool_of_vllm(launch, launched);
  set_requests(d.dp, longest_of_vllm(launch, launched), 0, launched);
}

}  // namespace moesim
