// SPDX-License-Identifier: Apache-2.0
// Gradients of experts between EP groups: what keeps the replicas of a layer's experts equal where
// the cluster has several EP groups, which train on different tokens.
#pragma once

#include <optional>
#include <vector>

#include "sim/policy/placer.h"

namespace moesim {

/// The sum over all G groups: a ring all-reduce of every part, in which each holder
/// sends and receives 2 (G - 1) / G of its bytes (Patarasuk & Yuan, JPDC 2009). A reduce-scatter of
/// gradients with an all-gather of updated weights, as a distributed optimizer has, moves the same.
/// One exchange: its latency counts once. Nothing where there is one group, where gradients take
/// no bytes, or where the decision has summed them already.
std::optional<ParamExchange> gradient_sum(const PlacementContext& context,
                                          const LayerDecision& decision);

}  // namespace moesim
