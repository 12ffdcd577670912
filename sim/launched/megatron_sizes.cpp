// SPDX-License-Identifier: Apache-2.0
// Parallelism and batch of Megatron-LM, its arguments (megatron/training/arguments.py), and the
// keys of Megatron-Bridge and NeMo that mean the same.
#include <fmt/format.h>

#include <numeric>

#include "sim/base/figures.h"
#include "sim/launched/software_tables.h"

namespace moesim {
namespace {

constexpr auto tp_name = "tensor-model-parallel-size";
constexpr auto pp_name = "pipeline-model-parallel-size";
constexpr auto cp_name = "context-parallel-size";
constexpr auto ep_name = "expert-model-parallel-size";
constexpr auto etp_name = "expert-tensor-parallel-size";

struct Degrees {
  std::int64_t tp, pp, cp, ep, etp;
};

Degrees degrees_of(const LaunchFile& launch) {
  Degrees d{count_of(launch, tp_name, 1), count_of(launch, pp_name, 1),
            count_of(launch, cp_name, 1), count_of(launch, ep_name, 1), 0};
  d.etp = count_of(launch, etp_name, d.tp);
  return d;
}

/// Throws at the last of the flags that the launch has.
void require_size(const LaunchFile& launch, bool holds, std::initializer_list<const char*> flags,
                  const std::string& message, const std::string& hint) {
  if (holds) return;
  const NamedArgument* at = nullptr;
  for (const char* flag : flags) {
    const NamedArgument* found = argument_of(launch, flag);
    if (found != nullptr) at = found;
  }
  if (at != nullptr) throw launch.arguments.error(*at, message, hint);
  throw Error(launch.arguments.file() + ": " + message, hint);
}

void take_virtual_stages(const LaunchFile& launch, const Degrees& d, Launched& launched) {
  const std::string layout = word_of(launch, "pipeline-model-parallel-layout", "");
  if (layout.find('t') != layout.npos && layout.find('<') == layout.npos) {
    launched.set("parallel.layout", fmt::format("'{}'", layout));
    return;
  }
  std::int64_t vpp = count_of(
      launch, "num-virtual-stages-per-pipeline-rank virtual-pipeline-model-parallel-size", 1);
  const std::int64_t layers = count_of(launch, "num-layers", 0);
  const auto per_chunk = count_of(launch, "num-layers-per-virtual-pipeline-stage", 0);
  if (per_chunk > 0 && vpp == 1) {
    const NamedArgument& at = *argument_of(launch, "num-layers-per-virtual-pipeline-stage");
    // As layers, where stages have fewer of them for it.
    const std::int64_t counted_too = is_on(launch, "account-for-embedding-in-pipeline-split") +
                                     is_on(launch, "account-for-loss-in-pipeline-split");
    const std::int64_t shared = layers + counted_too;
    if (layers == 0 || shared % (per_chunk * d.pp) != 0) {
      throw launch.arguments.error(
          at,
          layers == 0 ? "--num-layers-per-virtual-pipeline-stage without --num-layers"
                      : fmt::format("{} layers are not {} stages of chunks of {}", shared, d.pp,
                                    counted(per_chunk, "layer")),
          "--num-layers says how many there are to share");
    }
    vpp = shared / (per_chunk * d.pp);
  }
  if (vpp > 1 && d.pp > 1) launched.set("parallel.vpp", std::to_string(vpp));
}

void take_batch(const LaunchFile& launch, const Degrees& d, const Launched& launched,
                Launched& into) {
  constexpr auto lengths = "seq-length encoder-seq-length sequence-length";
  const std::int64_t micro = count_of(launch, "micro-batch-size", 1);
  const std::int64_t sequence = count_of(launch, lengths, 0);
  std::int64_t global = count_of(launch, "global-batch-size", 0);
  const std::int64_t replicas = launched.gpus / (d.tp * d.pp * d.cp);
  std::string said;
  if (global == 0 && replicas > 0) {
    global = micro * replicas;
    said = "assumed: a microbatch for each replica, Megatron-LM's default";
  }
  require_size(launch, global > 0, {}, "nothing says the global batch", "--global-batch-size N");
  require_size(launch, sequence > 0, {}, "nothing says how long a sequence is", "--seq-length N");
  require_size(launch, replicas == 0 || global % (micro * replicas) == 0,
               {"micro-batch-size", "global-batch-size"},
               fmt::format("the global batch {} is not a multiple of micro batch {} x {}", global,
                           micro, counted(replicas, "replica")),
               fmt::format("replicas are GPUs / (tp x pp x cp) = {} / {}", launched.gpus,
                           d.tp * d.pp * d.cp));
  into.set("batch.global", std::to_string(global), said);
  into.set("batch.micro", std::to_string(micro));
  into.set("batch.sequence", std::to_string(sequence));
}

constexpr ArgumentRow megatron_rows[] = {
    // Sizes of the model.
    {"num-layers", ArgumentUse::size, "layers"},
    {"hidden-size", ArgumentUse::size, "hidden"},
    {"moe-ffn-hidden-size", ArgumentUse::size, "expert_ffn"},
    {"num-experts num-moe-experts", ArgumentUse::size, "experts"},
    {"moe-router-topk", ArgumentUse::size, "top_k"},
    {"num-attention-heads", ArgumentUse::size, "attention.heads"},
    // read_megatron_model.
    {"ffn-hidden-size num-query-groups kv-channels kv-lora-rank q-lora-rank qk-head-dim "
     "qk-pos-emb-head-dim v-head-dim moe-shared-expert-intermediate-size mtp-num-layers vocab-size "
     "padded-vocab-size make-vocab-size-divisible-by",
     ArgumentUse::read},
    {"group-query-attention multi-latent-attention swiglu quick-geglu", ArgumentUse::read, "",
     Takes::none},
    {"moe-layer-freq", ArgumentUse::read, "", Takes::list},
    {"qk-layernorm add-qkv-bias", ArgumentUse::ignored, "", Takes::none},
    {"max-position-embeddings mtp-loss-scaling-factor mrope-section", ArgumentUse::ignored},
    // Parallelism and batch: read_megatron_sizes.
    {"tensor-model-parallel-size pipeline-model-parallel-size context-parallel-size "
     "expert-model-parallel-size expert-tensor-parallel-size "
     "num-virtual-stages-per-pipeline-rank num-layers-per-virtual-pipeline-stage "
     "virtual-pipeline-model-parallel-size pipeline-model-parallel-layout micro-batch-size "
     "global-batch-size seq-length encoder-seq-length sequence-length world-size num-nodes devices",
     ArgumentUse::read},
    {"sequence-parallel use-tp-pp-dp-mapping", ArgumentUse::read, "", Takes::none},
    {"decoder-first-pipeline-num-layers num-layers-in-first-pipeline-stage", ArgumentUse::count,
     "parallel.first_stage_layers"},
    {"decoder-last-pipeline-num-layers num-layers-in-last-pipeline-stage", ArgumentUse::count,
     "parallel.last_stage_layers"},
    {"account-for-embedding-in-pipeline-split", ArgumentUse::on, "parallel.embedding_as_layer",
     Takes::none},
    {"account-for-loss-in-pipeline-split", ArgumentUse::on, "parallel.loss_as_layer", Takes::none},
    {"num-distributed-optimizer-instances", ArgumentUse::read},
    // Experts: policy_of.
    {"moe-token-dispatcher-type moe-flex-dispatcher-backend moe-expert-capacity-factor "
     "moe-token-drop-policy",
     ArgumentUse::read},
    {"moe-enable-deepep moe-router-force-load-balancing moe-pad-expert-input-to-capacity",
     ArgumentUse::read, "", Takes::none},
    {"moe-grouped-gemm moe-use-legacy-grouped-gemm moe-permute-fusion moe-router-fusion "
     "moe-per-layer-logging moe-router-pre-softmax moe-router-enable-expert-bias",
     ArgumentUse::ignored, "", Takes::none},
    {"moe-aux-loss-coeff moe-z-loss-coeff moe-router-load-balancing-type moe-router-score-function "
     "moe-router-topk-scaling-factor moe-router-num-groups moe-router-group-topk moe-router-dtype "
     "moe-router-bias-update-rate moe-input-jitter-eps moe-router-topk-limited-devices "
     "moe-extended-tp moe-deepep-num-sms moe-hybridep-num-sms",
     ArgumentUse::ignored},
    {"moe-shared-expert-overlap moe-layer-recompute", ArgumentUse::left_out, "", Takes::none},
    // Recomputation, precision, state, overlap: read_megatron.
    {"recompute-granularity recompute-method recompute-num-layers fp8-recipe fp4-recipe fp8 fp4 "
     "fp8-format fp4-format num-layers-at-start-in-bf16 num-layers-at-end-in-bf16 optimizer "
     "data-parallel-sharding-strategy main-params-dtype exp-avg-dtype exp-avg-sq-dtype precision "
     "mixed-precision mixed-precision-recipe cuda-graph-impl",
     ArgumentUse::read},
    {"recompute-modules offload-modules cuda-graph-scope cuda-graph-modules", ArgumentUse::read, "",
     Takes::list},
    {"recompute-activations bf16 fp16 first-last-layers-bf16 use-distributed-optimizer "
     "use-megatron-fsdp use-custom-fsdp use-torch-fsdp2 overlap-grad-reduce overlap-param-gather "
     "overlap-moe-expert-parallel-comm delay-wgrad-compute grad-reduce-in-bf16 "
     "fine-grained-activation-offloading grad-reduce-in-fp32 accumulate-allreduce-grads-in-fp32 "
     "use-precision-aware-optimizer "
     "enable-cuda-graph external-cuda-graph",
     ArgumentUse::read, "", Takes::none},
    {"use-transformer-engine-op-fuser", ArgumentUse::on, "fused_grouped_mlp", Takes::none},
    // What moesim cannot say.
    {"tp-comm-overlap fp8-param-gather fp8-param overlap-param-gather-with-optimizer-step "
     "cpu-offloading optimizer-cpu-offload use-sharp cross-entropy-loss-fusion "
     "defer-embedding-wgrad-compute no-gradient-accumulation-fusion "
     "delay-offload-until-cuda-graph moe-paged-stash reuse-grad-buf-for-mxfp8-param-ag",
     ArgumentUse::left_out, "", Takes::none},
    {"cp-comm-type", ArgumentUse::left_out, "p2p"},
    {"hierarchical-context-parallel-sizes rampup-batch-size window-size", ArgumentUse::left_out, "",
     Takes::list},
    {"cpu-offloading-num-layers optimizer-offload-fraction "
     "microbatch-group-size-per-virtual-pipeline-stage microbatch-group-size-per-vp-stage",
     ArgumentUse::left_out, "0 1.0"},
    {"activation-offload-fraction delta-offload-bytes-across-pp-ranks "
     "fine-grained-offloading-max-inflight-offloads min-offloaded-tensor-size",
     ArgumentUse::left_out, "1.0 0 1048576"},
    {"transformer-impl", ArgumentUse::left_out, "transformer_engine"},
    // What no time depends on.
    {"untie-embeddings-and-output-weights disable-bias-linear use-flash-attn use-mcore-models "
     "use-legacy-models use-rotary-position-embeddings no-masked-softmax-fusion no-rope-fusion "
     "no-position-embedding "
     "apply-layernorm-1p apply-rope-fusion no-bias-swiglu-fusion no-bias-gelu-fusion squared-relu "
     "no-create-attention-mask-in-dataloader create-attention-mask-in-dataloader "
     "attention-softmax-in-fp32 no-mmap-bin-files mock-data enable-msc overlap-p2p-communication "
     "no-load-optim no-load-rng no-save-optim no-save-rng log-throughput log-progress "
     "log-params-norm log-num-zeros-in-grad log-timers-to-tensorboard "
     "log-memory-to-tensorboard log-validation-ppl-to-tensorboard "
     "log-world-size-to-tensorboard log-loss-scale-to-tensorboard profile manual-gc "
     "auto-detect-ckpt-format async-save finetune use-cpu-initialization exit-signal-handler "
     "ckpt-fully-parallel-save ckpt-fully-parallel-load te-rng-tracker skip-train "
     "calculate-per-token-loss use-checkpoint-args check-for-nan-in-loss-and-grad "
     "no-check-for-nan-in-loss-and-grad no-use-tokenizer-model-from-checkpoint-args "
     "enable-experimental use-dist-ckpt init-model-with-meta-device rotary-interleaved "
     "qk-clip clone-scatter-output-in-embedding-off override-opt-param-scheduler "
     "use-checkpoint-opt-param-scheduler distributed-timeout-off trust-remote-code",
     ArgumentUse::ignored, "", Takes::none},
    {"train-* lr lr-* min-lr max-lr weight-decay* start-weight-decay end-weight-decay adam-* sgd-* "
     "muon-* clip-grad init-method-* seed data-* split tokenizer-* vocab-file merge-file save* "
     "load* ckpt-* pretrained-checkpoint eval-* exit-* log-* tensorboard-* wandb-* profile* "
     "distributed-* nccl-* local-rank rank master-* num-workers dataloader-* normalization norm-* "
     "layernorm-* rotary-* rope-* position-embedding-type attention-dropout hidden-dropout "
     "attention-backend timing-* hysteresis initial-loss-scale loss-scale* min-loss-scale "
     "manual-gc-* dist-ckpt-* iterations-* skip-* test-data-path valid-data-path per-split-* "
     "cache-path fp8-margin fp8-interval fp8-amax-* inference-* moe-router-padding-for-* rerun-* "
     "error-injection-* cuda-graph-warmup-steps mscale* beta-* "
     "original-max-position-embeddings scaling-factor yarn-* replication* result-* run-* "
     "high-priority-stream-groups",
     ArgumentUse::ignored},
};

}  // namespace

void read_megatron_sizes(const LaunchFile& launch, Launched& launched) {
  const Degrees d = degrees_of(launch);
  launched.gpus = gpus_of_launcher(launch, launched);
  const auto divides = [&](std::int64_t product) {
    return launched.gpus == 0 || launched.gpus % product == 0;
  };
  require_size(launch, divides(d.tp * d.pp * d.cp), {tp_name, pp_name, cp_name},
               fmt::format("tp x pp x cp = {} x {} x {} do not divide {}", d.tp, d.pp, d.cp,
                           counted(launched.gpus, "GPU")),
               "is the number of nodes or of GPUs per node another?");
  require_size(launch, divides(d.etp * d.ep * d.pp), {ep_name, etp_name},
               fmt::format("etp x ep x pp = {} x {} x {} do not divide {}", d.etp, d.ep, d.pp,
                           counted(launched.gpus, "GPU")),
               "--expert-tensor-parallel-size is tp unless you say it");
  const std::int64_t experts = count_of(launch, "num-experts num-moe-experts", 0, 0);
  require_size(launch, experts % d.ep == 0, {"num-experts", ep_name},
               fmt::format("{} experts are not divided by ep = {}", experts, d.ep),
               "ep divides the experts");
  launched.gpus_divisor = static_cast<int>(std::lcm(d.tp * d.pp * d.cp, d.etp * d.ep * d.pp));
  launched.set("parallel.tp", std::to_string(d.tp));
  if (d.cp > 1) launched.set("parallel.cp", std::to_string(d.cp));
  launched.set("parallel.pp", std::to_string(d.pp));
  take_virtual_stages(launch, d, launched);
  launched.set("parallel.ep", std::to_string(d.ep));
  if (d.etp != d.tp) launched.set("parallel.etp", std::to_string(d.etp));
  if (is_on(launch, "use-tp-pp-dp-mapping")) launched.set("parallel.order", "tp-cp-ep-pp-dp");
  const std::int64_t instances = count_of(launch, "num-distributed-optimizer-instances", 1);
  if (instances > 1) launched.set("parallel.dp_replicate", std::to_string(instances));
  take_batch(launch, d, launched, launched);
  if (d.tp > 1 && !is_on(launch, "sequence-parallel") && !launch.yaml) {
    launched.assume("--sequence-parallel: tensor groups here always have it, the launch has not");
  }
}

ArgumentTable megatron_table() { return megatron_rows; }

}  // namespace moesim
