// SPDX-License-Identifier: Apache-2.0
// FlashLB (vllm-project/vllm-ascend PR 3042 and 6477, policy_flashlb.py at 182b75ea): copies and
// their places are chosen together, group by group of experts, by simulating placements, on the
// loads of single steps. GPUs are then renamed so that few experts move. Unlike upstream, no expert
// has more copies than GPUs, equal loads go to the lower expert, and arithmetic is double.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "sim/plan/placement.h"

namespace moesim::flash_lb {

/// [step][expert]
using StepLoads = std::vector<std::vector<double>>;

/// The largest load of a GPU over the mean, mean over the steps. Copies of an expert share evenly.
double imbalance(const StepLoads& loads, const SlotTable& table);

/// Equally many slots of every GPU, all full, no expert twice on one; nothing if that is not found.
/// A GPU's risk is the mean of its load and 0.674 standard deviations. By descending risk of their
/// own, experts are in four groups. For one group after the other, all further copies are dealt to
/// the heaviest copies of it and the later ones; up to 8 more or fewer of them for the group are
/// tried, too. The least imbalance wins, if copies are placed by descending mean on the GPUs of
/// least risk.
std::optional<SlotTable> search(const StepLoads& loads, int gpus, int slots);

/// The GPUs of `after` renamed, so that as many experts as possible are where they were, in their
/// slots.
SlotTable least_moves(const SlotTable& before, const SlotTable& after);

/// A layer of one EP group.
class Layer {
 public:
  /// The slots from now on, if balance has become worse than after the last change (below 0.95 of
  /// it, from 32 GPUs on 0.9) or than 0.9 (0.85), and a search finds better ones. Loads of a window
  /// of steps; from 128 steps on they are added up to 64 samples.
  std::optional<SlotTable> rebalance(const StepLoads& loads, const SlotTable& before);

 private:
  double balance_ = 0;  // mean over largest, as the last search that was taken expected; 0: none
};

}  // namespace moesim::flash_lb
