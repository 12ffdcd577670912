// SPDX-License-Identifier: Apache-2.0
// Sums the gradients of experts over EP groups. If a cluster has several EP groups, they train on
// different tokens; this sum keeps their copies of an expert equal.
#pragma once

#include <optional>
#include <vector>

#include "sim/planner/layer/expert_tensors.h"

namespace moesim {

/// What GPUs that hold the same part of an expert pass round in a ring.
struct ExpertRing {
  std::string name;
  /// Bytes per parameter.
  int bytes = 0;
  /// How often data go round: 2 for an all-reduce, 1 for a reduce-scatter or an all-gather.
  int times = 1;
  /// All that hold a part, those of one copy of the state, or, each with its share of the part, the
  /// GPUs of equal place in the copies.
  enum class Among { all, copy, copies } among = Among::all;
  const std::vector<int>* copy_of = nullptr;  // [GPU]
};

/// [gpu] experts whose gradients and state it has, of a layout by homes.
SlotTable state_homes(const LayerDecision& decision);

/// A ring exchange of a layer's experts among all EP groups of all copies of the layer.
/// - `copies` hold the same experts on different GPUs. GPU g of copy c has the number c x gpus + g
///   in the traffic.
/// - If a ring spans nodes, it enters and leaves each node by all its GPUs there, as NCCL does.
/// - It is one exchange, so its latency counts once.
/// - `sharers`: EP groups that hold different parts of the experts' tensors have separate rings.
/// - Returns nothing if every part has only one holder, or if `ring` has no bytes.
std::optional<ParamExchange> expert_ring(const PlacementContext& context,
                                         const std::vector<const LayerDecision*>& copies,
                                         const ExpertRing& ring, const TensorSharers& sharers = {});

/// Sums gradients over all G groups by a ring all-reduce of every part.
/// - Each holder sends and receives 2 (G - 1) / G of its bytes (Patarasuk & Yuan, JPDC 2009).
/// - The reduce-scatter of gradients and the all-gather of updated weights in a distributed
///   optimizer together move as many bytes.
/// - It is one exchange, so its latency counts once.
/// - Returns nothing if there is only one group, if gradients have no bytes, or if the decision has
///   already summed them.
std::optional<ParamExchange> gradient_sum(const PlacementContext& context,
                                          const LayerDecision& decision);

}  // namespace moesim
