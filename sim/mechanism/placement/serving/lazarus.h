// SPDX-License-Identifier: Apache-2.0
// Lazarus (arXiv 2407.04656): replicas in proportion to load, placed so that failures of nodes
// leave every expert alive as often as possible. A node is what fails at once, here one row of the
// slot table. The paper leaves rounding, partial groups and integral shares open: those are ours.
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

/// The experts of every node. Experts by replicas, descending, are cut into groups of
/// slots_per_node; within a group, one with fewer replicas sits on nodes of those with more,
/// wherever slots allow. Throws Error when an expert has more replicas than nodes, or slots do not
/// suffice.
SlotTable place(std::span<const int> replicas, const Shape& shape);

/// Shares [rank][expert]: every replica gets an equal part of the expert's choices; a rank fills
/// its own replica first, the rest goes to the others in proportion to what they have left.
std::vector<std::vector<Shares>> shares(const Placement& placement, const LoadMatrix& loads);

}  // namespace moesim::lazarus
