// SPDX-License-Identifier: Apache-2.0
// The layer and pass that LayerOps adds ops for.
#pragma once

#include <string>

#include "sim/policy/layer_ops.h"

namespace moesim {

struct LayerOps::Step {
  int layer;  // index
  ReplayedLayer& parts;
  const LayerWork& work;
  Cell cell;
  Pass pass;
  bool again = false;  // the work of the forward pass once more, in the backward pass
  OpKey key(OpKind kind, Stage stage, Role role = Role::plain, int part = 0) const {
    if (again) role = Role::recompute;
    const Pass in = again ? Pass::backward : pass;
    return {kind, role, in, stage, work.number, cell.microbatch, cell.chunk, part};
  }
  OpKey key(OpKind kind, Stage stage, int part) const {
    return key(kind, stage, Role::plain, part);
  }
  std::int64_t tokens(GpuId gpu) const { return work.tokens_per_rank[gpu.index()]; }
  std::string suffix() const {
    if (again) return "-recompute";
    return pass == Pass::backward ? "-grad" : "";
  }
};

}  // namespace moesim
