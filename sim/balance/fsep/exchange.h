// SPDX-License-Identifier: Apache-2.0
// FSEP's two exchanges of a layer's experts: who sends which bytes to whom, and what is added up.
#pragma once

#include <vector>

#include "sim/base/byte_matrix.h"
#include "sim/plan/placement.h"

namespace moesim::fsep {

/// Restore: every rank sends, for every slot of every rank, its chunk of the expert there; ranks x
/// ranks, the diagonal (a rank's own chunks) included.
ByteMatrix restore_exchange(const Placement& placement, Bytes chunk);

/// Gradient reduce: every rank sends the chunks of its slots' gradients to the ranks that keep
/// them, the transposed restore. Always dense: nothing is summed before it is sent.
ByteMatrix reduce_exchange(const Placement& placement, Bytes chunk);

/// A gradient that the reduce adds to an expert's shard.
struct Contribution {
  GpuId rank;
  SlotId slot;
  bool operator==(const Contribution&) const = default;
};

/// What every rank adds up for its chunk of the expert, in upstream's order: rank, then slot.
std::vector<Contribution> contributions(const Placement& placement, ExpertId expert);

}  // namespace moesim::fsep
