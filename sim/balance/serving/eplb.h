// SPDX-License-Identifier: Apache-2.0
// DeepSeek EPLB (github.com/deepseek-ai/EPLB, eplb.py): replicate loaded experts, pack the copies
// on GPUs. Loads are per layer, in any linear unit. Ties go to the lower index (upstream: an
// unstable sort); arithmetic is double (upstream: single). Without movement costs, and copies of
// one expert may share a GPU, as upstream.
#pragma once

#include <span>
#include <vector>

#include "sim/balance/loads.h"
#include "sim/plan/placement.h"

namespace moesim::eplb {

/// The pack of every item, and how many items had entered that pack before it.
struct Packing {
  std::vector<int> pack;
  std::vector<int> rank;
};

/// Packs items into `packs` packs of equally many: the heaviest first, each into the lightest pack
/// with room; one item per pack stays in order. Throws Error unless packs divides the items.
Packing pack(std::span<const double> weights, int packs);
/// The same, but sorts even when every pack gets one item.
Packing pack_sorted(std::span<const double> weights, int packs);

/// The expert of every slot, its replica rank there, and the copies of every expert.
struct Replication {
  std::vector<int> expert_in;
  std::vector<int> rank;
  std::vector<int> copies;
};

/// Every expert once, then each further slot to the expert with the most load per copy. Throws
/// Error when there are fewer slots than experts.
Replication replicate(std::span<const double> loads, int slots);

/// Physical slots and the groups of experts, nodes and GPUs they are spread over.
struct Shape {
  int slots = 0;
  int groups = 1;
  int nodes = 1;
  int gpus = 1;
};

/// Where the copies of one layer's experts are; slots are numbered over all GPUs.
struct Layout {
  std::vector<ExpertId> expert_in;           // [slot]
  std::vector<std::vector<SlotId>> copy_of;  // [expert][replica rank]
  int gpus = 1;

  int copies(ExpertId expert) const { return static_cast<int>(copy_of[expert.index()].size()); }
  /// The experts of every GPU, in slot order.
  SlotTable table() const;
};

/// One layer's layout: hierarchical (groups to nodes, copies within nodes) when nodes divide the
/// groups, else global (as with one group and one node). Throws Error unless groups divide the
/// experts, nodes the GPUs (hierarchical), GPUs the slots, and slots >= experts.
Layout rebalance(std::span<const double> loads, const Shape& shape);

/// The loads of the experts, summed over source ranks, as balancers take them.
std::vector<double> loads_of(const LoadMatrix& loads);

}  // namespace moesim::eplb
