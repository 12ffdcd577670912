// SPDX-License-Identifier: Apache-2.0
// The communicators of a phase as one op: one exchange if all GPUs have the same to do, else
// exchanges that start and end by themselves.
#pragma once

#include "sim/planner/layer/replayed_layer.h"
#include "sim/topology/topology.h"

namespace moesim {

/// Whether every GPU computes, sends and gets the same rows, and the communicators of every phase
/// ask equal times of links that no two of them share: they then start and end together. `cluster`
/// has the GPUs of the layer.
bool are_alike(ReplayedLayer& layer, const Topology& cluster);

/// Whether these exchanges ask equal times of links that no two of them share, on their way out and
/// back.
bool asks_the_same(const PhaseTraffic& phase, const Topology& cluster);

/// One op of all communicators of a phase. If they are not `apart`, it ends when they do.
PhaseTraffic as_one(const PhaseTraffic& phase, bool apart, KnownCollectives& known);

}  // namespace moesim
