// SPDX-License-Identifier: Apache-2.0
// CRAFT (arXiv 2603.28768): layers share a budget of replicas by their gain in balance. The paper's
// gain estimate and tie-breaking are unpublished; ours (interpreted): balancedness() of the
// profiled loads under EPLB's rule.
#pragma once

#include <span>
#include <vector>

#include "sim/plan/placement.h"

namespace moesim::craft {

/// Slots of one layer of an EP group.
struct LayerRoom {
  int gpus = 1;
  int replicas = 0;   // further slots, over one for each expert
  int first_gpu = 0;  // the first GPU with an extra slot, if slots do not divide evenly
};

/// The experts of every GPU: EPLB's copies, heaviest first to the least loaded GPU with room, if
/// possible one that has none of the expert.
SlotTable place(std::span<const double> loads, const LayerRoom& room);

/// The mean load of a GPU over the largest, 1 without any load. An expert's copies share its load
/// evenly.
double balancedness(std::span<const double> loads, const SlotTable& table);

/// Replicas of every layer, at most `budget` together, with the largest sum of
/// gains[layer][replicas]; of equal sums the fewest replicas. Exact; takes
/// O(layers x budget x replicas).
std::vector<int> share(const std::vector<std::vector<double>>& gains, int budget);

/// The slots of all layers. No layer has more than `most` replicas; slots of GPUs, over all layers,
/// differ by at most one.
std::vector<SlotTable> plan(const std::vector<std::vector<double>>& loads, int gpus, int budget,
                            int most);

}  // namespace moesim::craft
