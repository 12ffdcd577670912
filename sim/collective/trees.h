// SPDX-License-Identifier: Apache-2.0
// Two binary trees over the same nodes, as NCCL's all-reduce uses them.
#pragma once

#include <array>
#include <vector>

namespace moesim {

/// Per node its parent, -1 for the root.
using TreeParents = std::vector<int>;

/// Trees over nodes 0 .. n - 1 of a depth of at most log2(n) + 1 edges. In the second one nodes are
/// mirrored (n even) or moved by one (n odd): a leaf of one has children in the other, as far as
/// that can be.
std::array<TreeParents, 2> two_trees(int nodes);

/// Edges from the deepest node to the root.
int depth_of(const TreeParents& tree);

}  // namespace moesim
