// SPDX-License-Identifier: Apache-2.0
// Arguments of TensorRT-LLM: flags of trtllm-serve (commands/serve.py) and its YAML
// (llmapi/llm_args.py).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "sim/base/lower_case.h"
#include "sim/launched/engine_keys.h"
#include "sim/launched/software_tables.h"

namespace moesim {
namespace {

constexpr ArgumentRow trtllm_rows[] = {
    {"tp-size tensor-parallel-size ep-size moe-expert-parallel-size pp-size "
     "pipeline-parallel-size config extra-llm-api-options max-seq-len model "
     "kv-cache-free-gpu-memory-fraction free-gpu-memory-fraction "
     "kv-cache-config.free-gpu-memory-fraction kv-cache-config.dtype kv-cache-dtype "
     "moe-config.load-balancer.* cuda-graph-config.* speculative-config.* "
     "cache-transceiver-config.* moe-tensor-parallel-size gpus-per-node "
     "kv-cache-config.max-tokens scheduler-config.capacity-scheduler-policy",
     ArgumentUse::read},
    {"enable-attention-dp", ArgumentUse::read, "", Takes::none},
    {"max-batch-size", ArgumentUse::count, "serving.engine.max_sequences"},
    {"max-num-tokens", ArgumentUse::count, "serving.engine.max_tokens"},
    {"enable-chunked-prefill enable-chunked-context", ArgumentUse::on,
     "serving.engine.chunked_prefill", Takes::none},
    {"disable-overlap-scheduler", ArgumentUse::off, "serving.engine.plans_ahead", Takes::none},
    {"kv-cache-config.enable-block-reuse", ArgumentUse::on, "serving.engine.kv.prefix_cache",
     Takes::none},
    {"kv-cache-config.tokens-per-block", ArgumentUse::count, "serving.engine.kv.block"},
    {"moe-config.backend moe-config.max-num-tokens moe-config.use-low-precision-moe-combine "
     "moe-config.load-balancer attention-dp-config.* allreduce-strategy "
     "moe-cluster-parallel-size batching-wait-iters batch-wait-timeout-ms "
     "context-parallel-size cp-size kv-cache-config.host-cache-size enable-lm-head-tp-in-adp "
     "sparse-attention-config.* max-beam-width scheduler-config.* "
     "kv-cache-config.max-attention-window kv-cache-config.sink-token-length",
     ArgumentUse::left_out, "0 1 AUTO CUTLASS FIRST_COME_FIRST_SERVED"},
    {"torch-compile-config.* enable-min-latency enable-autotuner-off", ArgumentUse::left_out, "",
     Takes::none},
    {"trust-remote-code print-iter-log enable-iter-perf-stats enable-iter-req-stats",
     ArgumentUse::ignored, "", Takes::none},
    {"host port tokenizer backend log-level num-postprocess-workers reasoning-parser tool-parser "
     "metadata-server-config-file server-role stream-interval max-input-len "
     "num-workers served-model-name cluster-size build-config.* "
     "perf-metrics-max-requests return-perf-metrics kv-cache-config.*",
     ArgumentUse::ignored},
};

LaunchedDegrees degrees_of_trtllm(const LaunchFile& launch) {
  const std::int64_t tp = count_of(launch, "tensor-parallel-size tp-size", 1);
  const bool attention = is_on(launch, "enable-attention-dp");
  LaunchedDegrees d{attention ? 1 : tp, attention ? tp : 1};
  share_experts(launch, tp, "moe-expert-parallel-size ep-size", "--tp_size", d);
  return d;
}

void take_balancer_of_trtllm(const LaunchFile& launch, const LaunchedDegrees& d,
                             Launched& launched) {
  const std::int64_t slots = count_of(launch, "moe-config.load-balancer.num-slots", 0);
  if (slots == 0 || d.ep == 1) return;
  launched.slots = slots;
  launched.balancer =
      fmt::format("kind: trt-llm, updates_per_iteration: {}",
                  count_of(launch, "moe-config.load-balancer.layer-updates-per-iter", 0, 0));
}

/// With padding a pass has the next size that was captured.
void take_graphs_of_trtllm(const LaunchFile& launch, Launched& launched) {
  if (!is_on(launch, "cuda-graph-config.enable-padding")) return;
  const NamedArgument* list = argument_of(launch, "cuda-graph-config.batch-sizes");
  if (list != nullptr && !list->values.empty()) {
    launched.set("serving.engine.graph_sizes", fmt::format("[{}]", fmt::join(list->values, ", ")));
    return;
  }
  constexpr std::int64_t fine = 128;
  const std::int64_t most = count_of(launch, "cuda-graph-config.max-batch-size", fine);
  std::vector<std::string> sizes;
  for (std::int64_t size = 1; size < std::min<std::int64_t>(most, 8); size *= 2) {
    sizes.push_back(std::to_string(size));
  }
  if (most >= 8) sizes.push_back(fmt::format("{{from: 8, to: {}, step: 8}}", std::min(most, fine)));
  for (std::int64_t size = 2 * fine; size < most; size *= 2) sizes.push_back(std::to_string(size));
  if (most > fine || most < 8) sizes.push_back(std::to_string(most));
  launched.set("serving.engine.graph_sizes", fmt::format("[{}]", fmt::join(sizes, ", ")));
}

/// What the scheduler promises to requests that it has started (_torch/pyexecutor/scheduler.py).
void take_scheduler_of_trtllm(const LaunchFile& launch, Launched& launched) {
  const NamedArgument* argument = argument_of(launch, "scheduler-config.capacity-scheduler-policy");
  if (argument == nullptr) return;
  const std::string policy = lower_case(argument->text());
  if (policy == "max_utilization") {
    return launched.set("serving.engine.kv.reserve", "{initial: 0}",
                        "requests that have started may be evicted");
  }
  if (policy != "guaranteed_no_evict") launched.leave_out(*argument);
}

LaunchedDrafts drafts_of_trtllm(const LaunchFile& launch) {
  LaunchedDrafts drafts;
  drafts.tokens = count_of(
      launch, "speculative-config.num-nextn-predict-layers speculative-config.max-draft-len", 0);
  drafts.method = word_of(launch, "speculative-config.decoding-type", "");
  drafts.model = word_of(
      launch, "speculative-config.speculative-model speculative-config.speculative-model-dir", "");
  return drafts;
}

}  // namespace

ArgumentTable trtllm_table() { return trtllm_rows; }

void complete_trtllm(LaunchFile& launch) {
  const NamedArgument* argument = argument_of(launch, "extra-llm-api-options config");
  if (argument == nullptr) return;
  const NamedArguments options = options_of(launch, *argument);
  for (const NamedArgument& option : options.all()) {
    launch.arguments.add(option);
  }
}

void read_trtllm(const LaunchFile& launch, Launched& launched) {
  launched.serving = true;
  refuse_stages(launch, "pipeline-parallel-size pp-size");
  const LaunchedDegrees d = degrees_of_trtllm(launch);
  set_policy("megatron-allgather", "", launched);
  if (d.ep > 1 && d.dp > 1) launched.policy_in_domain = "nvlink-one-sided";
  set_degrees(d, launched);
  take_balancer_of_trtllm(launch, d, launched);
  launched.set("serving.engine.preset", "trtllm");
  take_memory_share(launch,
                    "kv-cache-config.free-gpu-memory-fraction kv-cache-free-gpu-memory-fraction "
                    "free-gpu-memory-fraction",
                    "free", launched);
  set_kv_type(word_of(launch, "kv-cache-config.dtype kv-cache-dtype", "auto"), launched);
  take_graphs_of_trtllm(launch, launched);
  if (const auto tokens = count_of(launch, "kv-cache-config.max-tokens", 0)) {
    launched.set("serving.kv_tokens", std::to_string(tokens));
  }
  take_scheduler_of_trtllm(launch, launched);
  const LaunchedDrafts drafts = drafts_of_trtllm(launch);
  if (drafts.tokens > 0) set_drafts(drafts, launched);
  const std::string role = word_of(launch, "server-role", "");
  if (role == "CONTEXT" || role == "context") {
    set_pool("prompts", launched);
  } else if (role == "GENERATION" || role == "generation") {
    set_pool("answers", launched);
  } else if (argument_of(launch, "cache-transceiver-config.backend") != nullptr) {
    launched.assume("one pool: the launch has a cache transceiver, but says not for which pool");
  }
  const bool chunks = is_on(launch, "enable-chunked-prefill enable-chunked-context");
  const std::int64_t pass = chunks ? 0 : count_of(launch, "max-num-tokens", 8192);
  set_requests(d.dp, count_of(launch, "max-seq-len", 0, 0), pass, launched);
}

}  // namespace moesim
