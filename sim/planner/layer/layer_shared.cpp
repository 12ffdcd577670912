// SPDX-License-Identifier: Apache-2.0
// Shared experts of MoE layers, and copies of what routed experts keep, to a stash and back.
#include <algorithm>
#include <utility>

#include "sim/planner/layer/layer_step.h"

namespace moesim {
namespace {

/// Tokens of a rank (published: vllm envs.py VLLM_SHARED_EXPERTS_STREAM_TOKEN_THRESHOLD; SGLang and
/// TensorRT-LLM do the same in graphs).
constexpr std::int64_t most_behind_dispatch = 256;

}  // namespace

LayerOps::KernelOf LayerOps::shared_gemm(const Step& s, std::int64_t n, std::int64_t k,
                                         Role role) const {
  const DataType type = gemm_type(GemmPart::shared, s, role);
  return [&s, n, k, type](GpuId gpu) { return GroupedGemm{{s.tokens(gpu)}, n, k, type}; };
}

void LayerOps::add_shared_experts(const Step& s, std::span<const Role> roles) {
  if (!has_shared_experts(s) || runs_shared_behind_dispatch(s)) return;
  const std::int64_t shared = shared_width();
  const std::int64_t up = shared * (model_.expert_matrices - 1);
  const auto gemm = [&](std::int64_t n, std::int64_t k, Role role = Role::plain) {
    return shared_gemm(s, n, k, role);
  };
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

bool LayerOps::has_shared_experts(const Step& s) const {
  return shared_width() > 0 && !s.work.decision.shared_routed;
}

/// Engines run shared experts of few tokens on a stream of their own, next to all that brings the
/// routed ones their tokens. Next to the products of these they would take as long as one after the
/// other: both are bound by the same memory and the same cores.
bool LayerOps::runs_shared_behind_dispatch(const Step& s) const {
  const auto& tokens = s.work.tokens_per_rank;
  const std::int64_t most = tokens.empty() ? 0 : *std::ranges::max_element(tokens);
  return cell_.serves && s.pass == Pass::forward &&
         most * cell_.replicas_of_tokens <= most_behind_dispatch;
}

/// Kernels that follow the dispatch in the order of their stream, but do not wait for it.
void LayerOps::add_shared_behind_dispatch(const Step& s) {
  if (!has_shared_experts(s) || !runs_shared_behind_dispatch(s)) return;
  const std::int64_t shared = shared_width(), up = shared * (model_.expert_matrices - 1);
  const auto add = [&](OpKind kind, std::int64_t n, std::int64_t k) {
    const OpKey key = s.key(kind, Stage::other);
    Op op{name_of(key.type()), key, Stream::compute, {}, {}, {}};
    if (set_kernels(s, op, shared_gemm(s, n, k))) s.chain.kernel(std::move(op));
  };
  add(OpKind::shared_fc1, up, model_.hidden);
  add(OpKind::shared_fc2, model_.hidden, shared);
}

/// Every byte is read once and written once.
std::vector<OpId> LayerOps::add_stash(const Step& s, const Mark& after) {
  const OpKey key = s.key(OpKind::stash, Stage::experts);
  Op op{name_of(key.type()), key, Stream::stash, {}, {}, {}};
  const Rows& rows = s.parts.expert_work().rows;
  const bool any = set_kernels(s, op, [&](GpuId gpu) {
    const Bytes kept = cell_.stash->row * rows[gpu.index()];
    return MemoryBound{kept, kept};
  });
  if (!any) return {};
  op.after = waits_of(op.group, after);
  return {s.chain.kernel(std::move(op))};
}

void LayerOps::load_stashed(int layer) {
  if (cell_.stash == nullptr) return;
  loaded_[static_cast<std::size_t>(layer)] =
      add_stash(step(layer, Pass::backward), cell_.stash->ended);
}

/// Experts work where copies to the stash are still read from, and on what has come back.
std::vector<OpId> LayerOps::stash_waits(int layer, Pass pass) {
  if (cell_.stash == nullptr) return {};
  std::vector<OpId> waits = std::exchange(cell_.stash->newest, {});
  if (pass == Pass::forward) return waits;
  const auto& loaded = loaded_[static_cast<std::size_t>(layer)];
  waits.insert(waits.end(), loaded.begin(), loaded.end());
  return waits;
}

void LayerOps::end_experts(int layer, Pass pass) {
  if (cell_.stash == nullptr) return;
  cell_.stash->ended = mark();
  if (pass == Pass::forward) cell_.stash->newest = add_stash(step(layer, pass), mark());
}

}  // namespace moesim
