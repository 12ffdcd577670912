// SPDX-License-Identifier: Apache-2.0
// FSEP's two exchanges of a layer's experts: who sends which bytes to whom.
#pragma once

#include "sim/base/byte_matrix.h"
#include "sim/plan/placement.h"

namespace moesim::fsep {

/// Restore: every rank sends, for every slot of every rank, its chunk of the expert there; ranks x
/// ranks, the diagonal (a rank's own chunks) included.
ByteMatrix restore_exchange(const Placement& placement, Bytes chunk);

/// Gradient reduce: every rank sends the chunks of its slots' gradients to the ranks that keep
/// them, the transposed restore. Always dense: nothing is summed before it is sent.
ByteMatrix reduce_exchange(const Placement& placement, Bytes chunk);

}  // namespace moesim::fsep
