// SPDX-License-Identifier: Apache-2.0
// Gradients of experts between EP groups: what keeps the replicas of a layer's experts equal if the
// cluster has several EP groups, which train on different tokens.
#pragma once

#include <optional>
#include <vector>

#include "sim/planner/layer/expert_tensors.h"

namespace moesim {

/// What the holders of the same part of an expert pass round in a ring of all of them.
struct ExpertRing {
  std::string name;
  int bytes = 0;  // per parameter
  int times = 1;  // 2: an all-reduce, 1: a reduce-scatter or an all-gather
};

/// A ring exchange of a layer's experts among all EP groups of some copies of the layer, which hold
/// the same experts on GPUs of their own: GPU g of copy c is number c x gpus + g of the traffic.
/// A ring that spans nodes enters and leaves each of them by all GPUs that it has there, as NCCL's
/// channels do. One exchange: its latency counts once. Nothing if every part has one holder, or no
/// bytes. EP groups that hold other parts of the experts' tensors have rings of their own.
std::optional<ParamExchange> expert_ring(const PlacementContext& context,
                                         const std::vector<const LayerDecision*>& copies,
                                         const ExpertRing& ring, const TensorSharers& sharers = {});

/// The sum over all G groups: a ring all-reduce of every part, in which each holder
/// sends and receives 2 (G - 1) / G of its bytes (Patarasuk & Yuan, JPDC 2009). A reduce-scatter of
/// gradients with an all-gather of updated weights, as a distributed optimizer has, moves the same.
/// One exchange: its latency counts once. Nothing if there is one group, if gradients take
/// no bytes, or if the decision has summed them already.
std::optional<ParamExchange> gradient_sum(const PlacementContext& context,
                                          const LayerDecision& decision);

}  // namespace moesim
