// SPDX-License-Identifier: Apache-2.0
// Hecate (FSSDP, arXiv 2502.02581; no public code). Every expert lives on one GPU, its owner.
// Heavily loaded experts get replicas on other GPUs for one iteration; the dense layer before hides
// their transfer.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "sim/mechanism/loads.h"
#include "sim/mechanism/owners.h"
#include "sim/plan/assignment.h"

namespace moesim {

/// What bounds the replicas of one iteration: time, memory and links. A node is `gpus_per_node`
/// consecutive GPUs.
struct HecateLimits {
  Seconds dense;                // time of the dense layer that hides transfers
  BytesPerSecond bandwidth;     // of a GPU; between nodes if that is slower
  Bytes parameters;             // of one expert
  Bytes gradients;              // of one expert
  std::vector<int> free_slots;  // [gpu], for replicas
  int gpus_per_node = 1;
};

/// One layer's slots in one iteration, and the transfers that they need. Where parameters are
/// released after the forward pass (the paper's variant RM), `gather` is repeated before the
/// backward pass.
struct Replication {
  SlotTable table;                     // per GPU: the experts that it owns, then its replicas
  std::vector<ExpertTransfer> gather;  // the paper's spAG: parameters, owner to replicas
  std::vector<ExpertTransfer> reduce;  // the paper's spRS: gradients, replicas to owner
};

/// t = min(experts, floor(dense x bandwidth / parameters)): the experts whose transfer the dense
/// layer hides.
int hidden_experts(const HecateLimits& limits, int experts);

/// Replicates the t heaviest experts: on every GPU if all have t free slots, else in proportion to
/// load. `loads` are per expert, summed (or averaged: only ratios matter) over a window of
/// iterations, 5 in the paper.
///
/// Unstated in the paper, chosen here for the second case:
/// - Slots go one by one to the expert with the largest load per copy.
/// - A replica goes to a GPU without the expert, in the node with the fewest copies of it; of equal
///   nodes the one with the most free slots, in it the GPU with the most; ties: lowest id.
///
/// Throws Error unless `shards` has one slot per expert, and `limits` fits its GPUs.
Replication hecate_replicate(const SlotTable& shards, std::span<const std::int64_t> loads,
                             const HecateLimits& limits);

/// Every rank uses its own GPU's copy of an expert. Without one it splits its choices evenly over
/// its node's copies; without these over all copies.
Assignment hecate_assignment(const SlotTable& table, int experts, int gpus_per_node);

/// Costs in the predicted latency of a layer.
struct HecateCosts {
  Bytes row;                 // of one choice
  BytesPerSecond bandwidth;  // of one GPU
  Seconds per_choice;        // one forward
};

/// 4 x (rows of the busiest receiver) x row / bandwidth + 3 x (largest load of a GPU) x per_choice,
/// under hecate_assignment. The paper uses a predicted latency without giving its formula; this one
/// follows FasterMoE's: 4 exchanges, and a backward pass of twice the forward's time.
Seconds hecate_latency(const SlotTable& table, const LoadMatrix& loads, int gpus_per_node,
                       const HecateCosts& costs);

/// The optional calibration after the gate: replicates again, now by the true loads, into the slots
/// that `spare.free_slots` has left in addition to `planned`. Nothing hides these transfers, so the
/// result is empty unless hecate_latency + the transfers of the busiest GPU and direction is lower
/// than before. The result's transfers are the additional ones.
std::optional<Replication> hecate_calibrate(const SlotTable& shards, const SlotTable& planned,
                                            const LoadMatrix& loads, const HecateLimits& spare,
                                            const HecateCosts& costs);

/// Heterogeneous sharding, every 100 iterations in the paper: new owners for the experts of all
/// layers. The layers share the slots of a GPU, (experts of all layers) / GPUs, rounded up or down.
///
/// 1. Layer by layer, the one with the heaviest of them first, the experts outside the `top`
///    heaviest are placed by falling load: on the node, then the GPU, with the least load in that
///    layer (unstated whether in that layer); of equal ones, on the one with fewer free slots.
/// 2. The `top` experts fill the rest, most free slots first.
///
/// loads[layer][expert]. Throws Error unless the GPUs form nodes.
std::vector<SlotTable> hecate_shards(const std::vector<std::vector<std::int64_t>>& loads, int top,
                                     int gpus, int gpus_per_node);

/// What new owners of one layer's experts move: parameters and optimizer state, `state` bytes each.
std::vector<ExpertTransfer> reshard_transfers(const SlotTable& before, const SlotTable& after,
                                              Bytes state);

}  // namespace moesim
