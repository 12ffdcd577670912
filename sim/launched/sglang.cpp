// SPDX-License-Identifier: Apache-2.0
// Arguments of SGLang (server_args.py), as flags and as its log prints them.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "sim/base/figures.h"
#include "sim/launched/engine_keys.h"
#include "sim/launched/software_tables.h"

namespace moesim {
namespace {

constexpr ArgumentRow sglang_rows[] = {
    {"model-path model tp-size tp tensor-parallel-size dp-size dp data-parallel-size ep-size ep "
     "expert-parallel-size pp-size pp pipeline-parallel-size moe-a2a-backend deepep-mode "
     "kv-cache-dtype quantization mem-fraction-static chunked-prefill-size max-running-requests "
     "context-length speculative-* disaggregation-mode ep-num-redundant-experts "
     "eplb-rebalance-num-iterations load-balance-method dtype moe-dense-tp-size cuda-graph-max-bs "
     "attn-cp-size attention-context-parallel-size max-prefill-tokens max-total-tokens",
     ArgumentUse::read},
    {"cuda-graph-bs", ArgumentUse::read, "", Takes::list},
    {"enable-dp-attention enable-eplb enable-two-batch-overlap enable-single-batch-overlap "
     "enable-deepep-moe enable-ep-moe disable-cuda-graph",
     ArgumentUse::read, "", Takes::none},
    {"page-size", ArgumentUse::count, "serving.engine.kv.block"},
    {"disable-radix-cache", ArgumentUse::off, "serving.engine.kv.prefix_cache", Takes::none},
    {"enable-mixed-chunk", ArgumentUse::on, "serving.engine.mixed", Takes::none},
    {"disable-overlap-schedule", ArgumentUse::off, "serving.engine.plans_ahead", Takes::none},
    {"enable-hierarchical-cache enable-torch-compile disable-custom-all-reduce disable-shared-"
     "experts-fusion enable-lora enable-nccl-nvls enable-symm-mem enable-flashinfer-allreduce-"
     "fusion disable-chunked-prefix-cache enable-piecewise-cuda-graph enable-pdmux",
     ArgumentUse::left_out, "", Takes::none},
    {"attention-backend prefill-attention-backend decode-attention-backend moe-runner-backend "
     "fp8-gemm-backend schedule-policy schedule-conservativeness "
     "cpu-offload-gb init-expert-location ep-dispatch-algorithm tbo-token-distribution-"
     "threshold eplb-algorithm num-continuous-decode-steps stream-interval-off "
     "disaggregation-transfer-backend json-model-override-args",
     ArgumentUse::left_out, "0 auto fcfs lpm None 1.0 1 trivial 0.48 mooncake nixl {}"},
    {"trust-remote-code skip-tokenizer-init enable-metrics log-requests enable-dp-lm-head "
     "enable-cache-report disable-cuda-graph-padding-off show-time-cost watchdog-off "
     "skip-server-warmup enable-memory-saver enable-multimodal allow-auto-truncate "
     "expert-distribution-recorder-off enable-expert-distribution-metrics "
     "disable-disk-cache enable-request-time-stats-logging enable-p2p-check",
     ArgumentUse::ignored, "", Takes::none},
    {"served-model-name", ArgumentUse::ignored, "", Takes::list},
    {"host port nnodes node-rank dist-init-addr dist-timeout nccl-port random-seed tokenizer* "
     "load-format revision log-* watchdog-timeout device chat-template tool-call-parser "
     "reasoning-parser api-key download-dir model-loader-* decode-log-interval deepep-config "
     "disaggregation-* expert-distribution-* grammar-backend "
     "stream-interval mm-* base-gpu-id gpu-id-step elastic-* mooncake-* file-storage-path "
     "sampling-backend warmups weight-* crash-dump-folder bucket-* metrics-* api-* admin-* "
     "collect-tokens-histogram prompt-tokens-* tokenizer-worker-num sleep-* hf-*",
     ArgumentUse::ignored},
};

LaunchedDegrees degrees_of_sglang(const LaunchFile& launch, Launched& launched) {
  constexpr auto tp_names = "tp-size tp tensor-parallel-size";
  constexpr auto dp_names = "dp-size dp data-parallel-size";
  const std::int64_t tp = count_of(launch, tp_names, 1);
  const std::int64_t dp = count_of(launch, dp_names, 1);
  const bool attention = is_on(launch, "enable-dp-attention");
  if (attention && tp % dp != 0) {
    throw launch.arguments.error(
        *argument_of(launch, dp_names),
        fmt::format("{} ranks of attention do not divide {}", dp, counted(tp, "GPU")),
        "with --enable-dp-attention dp divides tp");
  }
  LaunchedDegrees d;
  d.tp = attention ? tp / dp : tp;
  d.dp = attention ? dp : 1;
  if (!attention && dp > 1) {
    launched.set("serving.instances", std::to_string(dp));
  }
  const std::string backend = word_of(launch, "moe-a2a-backend", "none");
  const bool all = backend != "none" || is_on(launch, "enable-deepep-moe enable-ep-moe");
  if (all) {
    d.ep = tp;
  } else {
    share_experts(launch, tp, "ep-size ep expert-parallel-size", "--tp-size", d);
  }
  return d;
}

void take_dispatch_of_sglang(const LaunchFile& launch, const LaunchedDegrees& d,
                             Launched& launched) {
  const bool old_flag = is_on(launch, "enable-deepep-moe");
  const std::string backend = word_of(launch, "moe-a2a-backend", old_flag ? "deepep" : "none");
  if (backend == "none" || d.ep == 1) {
    return set_policy("megatron-allgather",
                      d.ep == 1 ? "" : "no --moe-a2a-backend: tokens are gathered on all GPUs",
                      launched);
  }
  if (backend == "mori") return set_policy("mori", "", launched);
  if (backend == "flashinfer") return set_policy("nvlink-one-sided", "for flashinfer", launched);
  if (backend != "deepep" && backend != "mooncake" && backend != "nixl") {
    throw launch.arguments.error(*argument_of(launch, "moe-a2a-backend"),
                                 fmt::format("no backend '{}' is known", backend),
                                 "none, deepep, mooncake, nixl, mori, flashinfer");
  }
  const std::string mode = word_of(launch, "deepep-mode", "auto");
  const bool prompts = word_of(launch, "disaggregation-mode", "null") == "prefill";
  if (mode == "normal") return set_policy("deepep-normal", "", launched);
  if (mode == "low_latency") return set_policy("deepep-low-latency", "", launched);
  set_policy(prompts ? "deepep-normal" : "deepep-low-latency",
             prompts ? "" : "--deepep-mode auto has the normal kernels for prompts, not simulated",
             launched);
}

void take_balancer_of_sglang(const LaunchFile& launch, const LaunchedDegrees& d,
                             Launched& launched) {
  const std::int64_t redundant = count_of(launch, "ep-num-redundant-experts", 0, 0);
  if (d.ep == 1) {
    if (redundant > 0) launched.leave_out(*argument_of(launch, "ep-num-redundant-experts"));
    return;
  }
  launched.redundant = redundant;
  if (!is_on(launch, "enable-eplb")) {
    if (launched.redundant == 0) return;
    constexpr int never = 1 << 20;
    set_rebalance(0, launched);
    launched.balancer = fmt::format("kind: sglang, interval: {}", never);
    launched.assume("placement: redundant experts stay where they start, without --enable-eplb");
    return;
  }
  const std::int64_t interval = count_of(launch, "eplb-rebalance-num-iterations", 1000);
  set_rebalance(interval, launched);
  launched.balancer = fmt::format("kind: sglang, interval: {}", interval);
}

/// Whether prompts are computed whole; `max-prefill-tokens` then bounds a pass.
bool has_whole_prompts(const LaunchFile& launch) {
  return word_of(launch, "chunked-prefill-size", "") == "-1";
}

std::int64_t prompt_tokens_of_sglang(const LaunchFile& launch) {
  constexpr std::int64_t absent = 16384;
  return count_of(launch, "max-prefill-tokens", absent);
}

void take_limits(const LaunchFile& launch, const LaunchedDegrees& d, Launched& launched) {
  launched.set("serving.engine.preset", "sglang");
  if (has_whole_prompts(launch)) {
    launched.set("serving.engine.chunked_prefill", "false");
    launched.set("serving.engine.max_tokens_of_all_ranks",
                 std::to_string(prompt_tokens_of_sglang(launch) * d.dp));
  } else if (const auto tokens = count_of(launch, "chunked-prefill-size", 0)) {
    launched.set("serving.engine.max_tokens_of_all_ranks", std::to_string(tokens));
  }
  if (const auto running = count_of(launch, "max-running-requests", 0)) {
    launched.set("serving.engine.max_sequences",
                 std::to_string(std::max<std::int64_t>(running / d.dp, 1)),
                 d.dp > 1 ? "max_sequences: of each rank of attention" : "");
  }
  take_memory_share(launch, "mem-fraction-static", "all", launched);
  if (const auto tokens = count_of(launch, "max-total-tokens", 0)) {
    launched.set("serving.kv_tokens", std::to_string(tokens));
  }
}

/// Sizes that graphs are captured for, up to the largest.
void take_graph_sizes(const LaunchFile& launch, Launched& launched) {
  if (is_on(launch, "disable-cuda-graph")) return launched.set("serving.graphs", "false");
  const NamedArgument* list = argument_of(launch, "cuda-graph-bs");
  if (list != nullptr && !list->values.empty() && list->text() != "false") {
    require_known(launch, *list);
    launched.set("serving.engine.graph_sizes", fmt::format("[{}]", fmt::join(list->values, ", ")));
    return;
  }
  const std::int64_t most = count_of(launch, "cuda-graph-max-bs", 0);
  if (most == 0) return;
  std::vector<std::string> sizes;
  for (const std::int64_t size : {1, 2, 4, 8, 12}) {
    if (size <= most) sizes.push_back(std::to_string(size));
  }
  constexpr std::int64_t fine = 256;
  const auto range = [&](std::int64_t from, std::int64_t to, int step) {
    if (from <= to) sizes.push_back(fmt::format("{{from: {}, to: {}, step: {}}}", from, to, step));
  };
  range(16, std::min(most, fine), 8);
  range(fine + 16, most, 16);
  launched.set("serving.engine.graph_sizes", fmt::format("[{}]", fmt::join(sizes, ", ")));
}

void take_drafts_of_sglang(const LaunchFile& launch, Launched& launched) {
  if (word_of(launch, "speculative-algorithm", "").empty()) return;
  const std::int64_t tokens = count_of(launch, "speculative-num-draft-tokens", 0);
  const std::int64_t steps = count_of(launch, "speculative-num-steps", 0);
  const std::int64_t drafts = tokens > 1 ? tokens - 1 : steps;
  if (drafts == 0) return;
  set_drafts({drafts, steps, word_of(launch, "speculative-algorithm", ""),
              word_of(launch, "speculative-draft-model-path speculative-draft-model", "")},
             launched);
  const NamedArgument* topk = argument_of(launch, "speculative-eagle-topk");
  if (topk == nullptr || topk->text() == "1" || topk->text() == "false") return;
  launched.assume(
      fmt::format("serving.accepted: of one path of a tree of drafts, without the others of {}",
                  topk->written));
}

/// Who takes a request: ranks of attention, or instances (data_parallel_controller.py).
void take_router_of_sglang(const LaunchFile& launch, Launched& launched) {
  const NamedArgument* argument = argument_of(launch, "load-balance-method");
  if (argument == nullptr) return;
  const std::string method = word_of(launch, "load-balance-method", "auto");
  const bool of_ranks = is_on(launch, "enable-dp-attention");
  const char* key = of_ranks ? "serving.engine.router" : "serving.router";
  if (method == "round_robin") return launched.set(key, "round-robin");
  if (method == "shortest_queue" || method == "total_requests") {
    return launched.set(key, "least-requests");
  }
  if (method == "minimum_tokens" || method == "total_tokens") {
    return launched.set(key, "least-tokens");
  }
  if (method != "auto") launched.leave_out(*argument);
}

/// Degrees that only one other than attention's would change.
void leave_out_degrees(const LaunchFile& launch, const LaunchedDegrees& d, Launched& launched) {
  const auto unless = [&](const char* names, std::int64_t same) {
    if (count_of(launch, names, same) != same) launched.leave_out(*argument_of(launch, names));
  };
  unless("attn-cp-size attention-context-parallel-size", 1);
  unless("moe-dense-tp-size", d.tp);
}

}  // namespace

ArgumentTable sglang_table() { return sglang_rows; }

void read_sglang(const LaunchFile& launch, Launched& launched) {
  launched.serving = true;
  refuse_stages(launch, "pp-size pp pipeline-parallel-size");
  const LaunchedDegrees d = degrees_of_sglang(launch, launched);
  take_dispatch_of_sglang(launch, d, launched);
  set_degrees(d, launched);
  leave_out_degrees(launch, d, launched);
  take_router_of_sglang(launch, launched);
  take_balancer_of_sglang(launch, d, launched);
  take_limits(launch, d, launched);
  const NamedArgument* quantization = argument_of(launch, "quantization");
  if (quantization != nullptr) take_quantization(*quantization, launched);
  set_kv_type(word_of(launch, "kv-cache-dtype", "auto"), launched);
  take_graph_sizes(launch, launched);
  if (is_on(launch, "enable-two-batch-overlap")) launched.set("serving.overlap", "two-batch");
  if (is_on(launch, "enable-single-batch-overlap")) {
    launched.set("serving.overlap", "single-batch");
  }
  take_drafts_of_sglang(launch, launched);
  const std::string pool = word_of(launch, "disaggregation-mode", "null");
  if (pool == "prefill") set_pool("prompts", launched);
  if (pool == "decode") set_pool("answers", launched);
  std::int64_t longest = count_of(launch, "context-length", 0, 0);
  if (has_whole_prompts(launch)) {
    const std::int64_t pass = prompt_tokens_of_sglang(launch);
    longest = longest == 0 ? pass : std::min(longest, pass);
  }
  set_requests(d.dp, longest, 0, launched);
}

}  // namespace moesim
