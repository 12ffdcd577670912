// SPDX-License-Identifier: Apache-2.0
// Hecate (FSSDP, arXiv 2502.02581; no public code): every expert is sharded to one GPU, and loaded
// ones are gathered on others for one iteration, hidden behind the dense layer before.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "sim/balance/loads.h"
#include "sim/balance/training/owners.h"
#include "sim/plan/assignment.h"

namespace moesim {

/// How much may be gathered. Nodes are runs of `gpus_per_node` GPUs.
struct HecateLimits {
  Seconds dense;                // time of the dense layer that hides transfers
  BytesPerSecond bandwidth;     // the inter-node one where tiers differ
  Bytes parameters;             // of one expert
  Bytes gradients;              // of one expert
  std::vector<int> free_slots;  // [gpu]
  int gpus_per_node = 1;
};

/// One layer's slots in one iteration and what they move. Where parameters are released after the
/// forward (the paper's variant RM), `gather` runs again before the backward.
struct Replication {
  SlotTable table;                     // shards, then replicas
  std::vector<ExpertTransfer> gather;  // spAG: parameters, owner to replicas
  std::vector<ExpertTransfer> reduce;  // spRS: gradients, replicas to owner
};

/// t: experts whose transfer the dense layer hides, at most all: floor(dense bandwidth / expert).
int hidden_experts(const HecateLimits& limits, int experts);

/// The t heaviest experts on every GPU where all have t free slots, else their replicas in
/// proportion to load. loads: per expert, over a window of iterations (5 in the paper), its sum as
/// good as its mean. Unstated, chosen here: slots go one by one to the largest load per copy;
/// replicas to a GPU without the expert in the node with the fewest copies of it, of these the one
/// with most free slots, then the GPU with most; ties: lowest id. Throws Error unless `shards` has
/// one slot per expert, and `limits` fits its GPUs.
Replication hecate_replicate(const SlotTable& shards, std::span<const std::int64_t> loads,
                             const HecateLimits& limits);

/// Every rank uses its own GPU's copy of an expert, else splits its choices evenly over its node's
/// copies, else over all.
Assignment hecate_assignment(const SlotTable& table, int experts, int gpus_per_node);

/// What the latency of a layer depends on.
struct HecateCosts {
  Bytes row;                 // of one choice
  BytesPerSecond bandwidth;  // of one GPU
  Seconds per_choice;        // one forward
};

/// 4 x the busiest receiver's rows / bandwidth + 3 x the largest GPU load, under hecate_assignment.
/// The paper names a predicted latency without its formula; this is the shape of FasterMoE's.
Seconds hecate_latency(const SlotTable& table, const LoadMatrix& loads, int gpus_per_node,
                       const HecateCosts& costs);

/// The optional calibration after the gate: replicates again, by the true loads into the slots that
/// `spare.free_slots` has left beside `planned`; adopted only if the latency, with the transfers of
/// the busiest GPU and direction exposed, is lower. The result's transfers are the additional ones.
std::optional<Replication> hecate_calibrate(const SlotTable& shards, const SlotTable& planned,
                                            const LoadMatrix& loads, const HecateLimits& spare,
                                            const HecateCosts& costs);

/// Heterogeneous sharding, every 100 iterations in the paper: owners for all layers, the slots of a
/// GPU shared by the layers, ceil or floor of their experts / GPUs. Experts outside the `top`
/// heaviest of their layer go, the layer with the heaviest of them first, by falling load to the
/// node, then the GPU, of least load in that layer (unstated: in that layer), of equal ones with
/// fewer free slots; the top ones fill the rest, most free slots first. loads[layer][expert].
/// Throws Error unless the GPUs form nodes.
std::vector<SlotTable> hecate_shards(const std::vector<std::vector<std::int64_t>>& loads, int top,
                                     int gpus, int gpus_per_node);

/// What re-sharding one layer moves: parameters and optimizer state, `state` bytes an expert.
std::vector<ExpertTransfer> reshard_transfers(const SlotTable& before, const SlotTable& after,
                                              Bytes state);

}  // namespace moesim
