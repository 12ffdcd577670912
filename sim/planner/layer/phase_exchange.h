// SPDX-License-Identifier: Apache-2.0
// The exchanges of one phase of a dispatch: matrices and rows per communicator. They are one op if
// all GPUs have the same to do, else exchanges that start and end by themselves.
#pragma once

#include <vector>

#include "sim/planner/layer/layer_ops.h"
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

/// [phase] whether another phase sends its rows on; the others deliver to the experts.
std::vector<bool> continued_phases(const DispatchShape& shape);

/// An exchange and who takes part.
struct GroupExchange {
  Group group;
  Exchange exchange;
};

/// The rows that each communicator of a phase moves on the way out.
PhaseTraffic phase_traffic(const LayerWork& work, int phase);

/// One exchange per communicator of a phase. `traffic` is its phase_traffic, which goes back if
/// `mirrored`: all exchanges of the phase share it, groups included.
std::vector<GroupExchange> phase_exchanges(const LayerWork& work, int phase,
                                           const PhaseTraffic& traffic, Bytes row_bytes,
                                           bool mirrored);

/// What the side exchange of every communicator of a phase moves on the way out.
PhaseTraffic side_traffic(const PhaseTraffic& phase, const SideExchange& side);

/// These exchanges, on the way that the rows of their phase go.
std::vector<GroupExchange> side_exchanges(const PhaseTraffic& traffic, bool mirrored);

}  // namespace moesim
