// SPDX-License-Identifier: Apache-2.0
// The layer and pass that LayerOps adds ops for.
#pragma once

#include <string>

#include "sim/planner/layer/layer_ops.h"

namespace moesim {

struct LayerOps::Step {
  int layer;  // index
  ReplayedLayer& parts;
  const LayerWork& work;
  Cell cell;
  Pass pass;
  OpChain& chain;
  int chunk = 0;       // of the layer's tokens
  bool again = false;  // the work of the forward pass once more, in the backward pass
  OpKey key(OpKind kind, Stage stage, Role role = Role::plain, int part = 0) const {
    if (again) role = Role::recompute;
    const Pass in = again ? Pass::backward : pass;
    constexpr int most_parts = 256;  // of a chunk
    return {
        kind, role, in, stage, work.number, cell.microbatch, cell.chunk, part + chunk * most_parts};
  }
  Step run_again() const {
    Step s = *this;
    s.pass = Pass::forward;
    s.again = true;
    return s;
  }
  OpKey key(OpKind kind, Stage stage, int part) const {
    return key(kind, stage, Role::plain, part);
  }
  std::int64_t scores(const MoeModel& model) const {
    return work.gate_outputs > 0 ? work.gate_outputs : model.experts;
  }
  /// Tokens that a GPU computes: those of all GPUs of its tensor group if these have all in common,
  /// also if they are fewer than the GPUs.
  std::int64_t tokens(GpuId gpu) const {
    const auto group = static_cast<std::size_t>(cell.replicas_of_tokens);
    const std::size_t first = gpu.index() / group * group;
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < group; ++i) sum += work.tokens_per_rank[first + i];
    return sum;
  }
  std::string suffix() const {
    return (again ? "-recompute" : pass == Pass::backward ? "-grad" : "") + wave_suffix();
  }
  /// Which wave of a fused kernel it is, for people.
  std::string wave_suffix() const {
    return work.wave ? "-wave-" + std::to_string(work.wave->index + 1) : "";
  }
};

}  // namespace moesim
