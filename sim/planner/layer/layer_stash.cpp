// SPDX-License-Identifier: Apache-2.0
// Copies of what routed experts keep, to a stash and back.
#include <utility>

#include "sim/planner/layer/layer_step.h"

namespace moesim {

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
