// SPDX-License-Identifier: Apache-2.0
// The exchanges of one phase of a dispatch: matrices and rows per communicator.
#pragma once

#include <vector>

#include "sim/policy/layer_ops.h"

namespace moesim {

/// [phase] whether another phase sends its rows on; the others deliver to the experts.
std::vector<bool> continued_phases(const DispatchShape& shape);

/// An exchange and who takes part.
struct GroupExchange {
  Group group;
  Exchange exchange;
};

/// One exchange per communicator of a phase; `mirrored`: turned round for the way back.
std::vector<GroupExchange> phase_exchanges(const LayerWork& work, int phase, Bytes row_bytes,
                                           bool mirrored);

/// The side exchange of every communicator of a phase.
std::vector<GroupExchange> side_exchanges(const LayerWork& work, int phase,
                                          const SideExchange& side, bool mirrored);

}  // namespace moesim
