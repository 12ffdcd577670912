// SPDX-License-Identifier: Apache-2.0
// Lazarus (arXiv 2407.04656): replicas in proportion to load, placed so that the same nodes hold
// many experts together, which leaves every expert alive more often when nodes fail. A node is what
// fails at once, here one row of the slot table. Ours are rounding, integral shares, and that no
// node holds an expert twice, so that fewer failures than `least` replicas never lose one.
#pragma once

#include <span>
#include <vector>

#include "sim/mechanism/loads.h"
#include "sim/plan/assignment.h"

namespace moesim::lazarus {

/// Nodes and the expert slots of each.
struct Shape {
  int nodes = 1;
  int slots_per_node = 1;
};

/// Replicas per expert: max(least, floor of its share of all slots), the remaining slots by largest
/// remainder, excess taken where the share is exceeded most; one replica per node at most, so slots
/// stay free when there are more than experts x nodes. Throws Error when `least` of each do not
/// fit.
std::vector<int> replicas(std::span<const double> loads, const Shape& shape, int least);

/// The experts of every node by maximum rank overlap (MRO). Experts by replicas, ascending, form
/// groups: the first sits on nodes that are empty, and all others of its group there, too, so that
/// the group lives if one of these nodes does. A group ends at slots_per_node experts as in the
/// paper, or sooner: the replicas of every expert must still fit on nodes of their own. What is
/// left goes evenly to nodes with room. Throws Error when an expert has more replicas than nodes,
/// or slots do not suffice.
SlotTable place(std::span<const int> replicas, const Shape& shape);

/// Shares [rank][expert]: every replica gets an equal part of the expert's choices; a rank fills
/// its own replica first, the rest goes to the others in proportion to what they have left.
std::vector<std::vector<Shares>> shares(const Placement& placement, const LoadMatrix& loads);

}  // namespace moesim::lazarus
