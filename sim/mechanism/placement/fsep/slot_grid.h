// SPDX-License-Identifier: Apache-2.0
// The slots of a cluster as FSEP sees them: every rank the same number, nodes of equal size.
#pragma once

#include "sim/base/types.h"

namespace moesim::fsep {

/// N ranks on N/g nodes of g consecutive ranks each, C expert slots per rank.
struct SlotGrid {
  int ranks = 0;           // N
  int ranks_per_node = 0;  // g
  int slots_per_rank = 0;  // C

  int nodes() const { return ranks / ranks_per_node; }
  int slots() const { return ranks * slots_per_rank; }
  int node_of(GpuId rank) const { return rank.value / ranks_per_node; }
  /// Throws Error unless all are positive, g divides N, and `experts` fit the slots.
  void check(int experts) const;
};

}  // namespace moesim::fsep
