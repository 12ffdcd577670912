// SPDX-License-Identifier: Apache-2.0
// What of a whole iteration is compared with the reference.
#pragma once

#include <utility>
#include <vector>

#include "realhw/program/place.h"
#include "sim/model/op_kind.h"
#include "sim/model/parameters.h"
#include "sim/planner/parallel/layer_layout.h"
#include "sim/saved/held_iteration.h"

namespace moesim {

/// All of float32. Rows are those of the rank between blocks; losses, of its whole replica.
struct IterationResults {
  /// What enters a block of a microbatch, or the gradient by it; of the head, layer is
  /// model.layers.
  struct Values {
    int microbatch = 0, layer = 0;
    BlockKind block = BlockKind::attention;
    Pass pass = Pass::forward;
    Place at;
  };
  struct Losses {
    int microbatch = 0;
    Place at;
  };
  /// Elements from the first to one past the last of a part or an expert: all, or the rank's shard.
  struct Dense {
    StagePart part;
    Place weights, gradients;
    std::pair<std::int64_t, std::int64_t> summed, updated;
  };
  struct Expert {
    int layer = 0;
    ExpertId expert;
    Place weights, gradients;
    std::pair<std::int64_t, std::int64_t> summed, updated;
  };

  HeldPlace place;
  std::vector<Values> values;
  std::vector<Losses> losses;
  std::vector<Dense> dense;
  std::vector<Expert> experts;
};

}  // namespace moesim
