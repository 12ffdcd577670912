// SPDX-License-Identifier: Apache-2.0
// Shared experts of MoE layers.
#include <algorithm>
#include <utility>

#include "sim/planner/layer/layer_step.h"

namespace moesim {
namespace {

/// Tokens of a rank (published: vllm envs.py VLLM_SHARED_EXPERTS_STREAM_TOKEN_THRESHOLD; SGLang and
/// TensorRT-LLM do the same in graphs).
constexpr std::int64_t most_shared_apart = 256;

}  // namespace

void LayerOps::add_shared_experts(const Step& s, std::span<const Role> roles) {
  const std::int64_t shared = shared_width();
  if (shared == 0 || s.work.decision.shared_routed) return;
  const std::int64_t up = shared * (model_.expert_matrices - 1);
  const auto gemm = [&](std::int64_t n, std::int64_t k, Role role = Role::plain) {
    const DataType type = gemm_type(GemmPart::shared, s, role);
    return [&s, n, k, type](GpuId gpu) { return GroupedGemm{{s.tokens(gpu)}, n, k, type}; };
  };
  if (runs_shared_apart(s))
    return add_shared_apart(s, gemm(up, model_.hidden), gemm(model_.hidden, shared));
  if (s.pass == Pass::forward) {
    add_compute(s, s.key(OpKind::shared_fc1, Stage::other), gemm(up, model_.hidden));
    add_compute(s, s.key(OpKind::shared_fc2, Stage::other), gemm(model_.hidden, shared));
    return;
  }
  for (const Role role : roles) {
    add_compute(s, s.key(OpKind::shared_fc2, Stage::other, role),
                gemm(shared, model_.hidden, role));
    add_compute(s, s.key(OpKind::shared_fc1, Stage::other, role), gemm(model_.hidden, up, role));
  }
}

/// Engines run shared experts of few tokens next to the routed ones, on a stream of their own.
bool LayerOps::runs_shared_apart(const Step& s) const {
  const auto& tokens = s.work.tokens_per_rank;
  const std::int64_t most = tokens.empty() ? 0 : *std::ranges::max_element(tokens);
  return cell_.serves && s.pass == Pass::forward &&
         most * cell_.replicas_of_tokens <= most_shared_apart;
}

void LayerOps::add_shared_apart(const Step& s, const KernelOf& fc1, const KernelOf& fc2) {
  Mark after = s.chain.mark();
  for (const auto& [kind, kernel_of] :
       {std::pair(OpKind::shared_fc1, &fc1), std::pair(OpKind::shared_fc2, &fc2)}) {
    const OpKey key = s.key(kind, Stage::other);
    Op op{name_of(key.type()), key, Stream::copy, {}, {}, {}};
    if (!set_kernels(s, op, *kernel_of)) continue;
    op.after = waits_of(op.group, after);
    const OpId id = s.chain.kernel(std::move(op));
    after = s.chain.per_gpu({id});
    shared_apart_.push_back(id);
  }
}

}  // namespace moesim
