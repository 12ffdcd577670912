// SPDX-License-Identifier: Apache-2.0
// The exchanges of one phase of a dispatch: matrices and rows per communicator.
#pragma once

#include <vector>

#include "sim/planner/layer/layer_ops.h"

namespace moesim {

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
