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
  OpKey key(OpKind kind, Stage stage, Role role = Role::plain, int part = 0) const {
    return {kind, role, pass, stage, work.number, cell.microbatch, cell.chunk, part};
  }
  OpKey key(OpKind kind, Stage stage, int part) const {
    return key(kind, stage, Role::plain, part);
  }
  std::int64_t tokens(GpuId gpu) const { return work.tokens_per_rank[gpu.index()]; }
  std::string suffix() const { return pass == Pass::backward ? "-grad" : ""; }
};

}  // namespace moesim
