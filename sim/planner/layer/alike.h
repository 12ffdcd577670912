// SPDX-License-Identifier: Apache-2.0
// Layers in which all GPUs have the same to do, so that their communicators can be simulated as
// one.
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

/// One exchange of all communicators of a phase, which ends when they do.
PhaseTraffic together(const PhaseTraffic& phase);

}  // namespace moesim
