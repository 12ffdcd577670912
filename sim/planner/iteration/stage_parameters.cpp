// SPDX-License-Identifier: Apache-2.0
#include "sim/planner/iteration/stage_parameters.h"

#include "sim/planner/iteration/block_memory.h"

namespace moesim {

std::int64_t dense_parameters(const MoeModel& model, int tp, const StagePart& part) {
  std::int64_t sum = 0;
  for (const HeldBlock& held : blocks_of(part, model)) {
    const BlockParameters p = block_parameters(model, held.layer, held.block);
    sum += p.split / tp + p.whole;
  }
  return sum;
}

std::int64_t undivided_parameters(const MoeModel& model, const StagePart& part) {
  std::int64_t sum = 0;
  for (const HeldBlock& held : blocks_of(part, model)) {
    sum += block_parameters(model, held.layer, held.block).whole;
  }
  return sum;
}

}  // namespace moesim
