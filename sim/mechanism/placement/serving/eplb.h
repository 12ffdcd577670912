// SPDX-License-Identifier: Apache-2.0
// DeepSeek EPLB (github.com/deepseek-ai/EPLB, eplb.py): replicates loaded experts and packs the
// copies on GPUs. Loads are per layer, in any linear unit, because only their ratios matter.
// As upstream, moving an expert costs nothing, and copies of one expert may share a GPU.
// Unlike upstream, ties go to the lower index (an unstable sort there) and arithmetic is double
// (single there), so that results are the same on every machine.
#pragma once

#include <span>
#include <vector>

#include "sim/mechanism/loads.h"
#include "sim/plan/placement.h"

namespace moesim::eplb {

/// [item]: its pack, and its rank there: how many items entered that pack before it.
struct Packing {
  std::vector<int> pack;
  std::vector<int> rank;
};

/// Packs items into `packs` packs of equally many: the heaviest item first, each into the lightest
/// pack with room. With one item per pack, item i goes into pack i. Throws Error unless `packs`
/// divides the number of items.
Packing pack(std::span<const double> weights, int packs);
/// The same, but heaviest first also with one item per pack, as TensorRT-LLM does.
Packing pack_sorted(std::span<const double> weights, int packs);

/// expert_in[slot] and rank[slot]: the expert, and which of its copies; copies[expert].
struct Replication {
  std::vector<int> expert_in;
  std::vector<int> rank;
  std::vector<int> copies;
};

/// Every expert once, then each further slot to the expert with the most load per copy. Throws
/// Error when there are fewer slots than experts.
Replication replicate(std::span<const double> loads, int slots);

/// What a layer is spread over; `groups` are the gate's groups of experts, which EPLB keeps on one
/// node because a token uses few of them.
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

/// One layer's layout. Where nodes divide the groups it is hierarchical: groups go to nodes, then
/// copies to GPUs within a node. Else it is global, as with one group and one node. Throws Error
/// unless groups divide the experts, nodes the GPUs (hierarchical), GPUs the slots, and slots >=
/// experts.
Layout rebalance(std::span<const double> loads, const Shape& shape);

/// The load of every expert, summed over source ranks: balancers do not ask where tokens come from.
std::vector<double> loads_of(const LoadMatrix& loads);

}  // namespace moesim::eplb
