// SPDX-License-Identifier: Apache-2.0
#include "sim/collective/trees.h"

#include <algorithm>
#include <cstddef>

namespace moesim {
namespace {

/// Odd nodes are leaves; node k 2^i (k odd) is at height i; 0 is the root, which has no parent.
int parent_in_order(int node, int nodes) {
  const int low = node & -node;
  const int up = (node ^ low) | (low << 1);
  return up < nodes ? up : node ^ low;
}

}  // namespace

std::array<TreeParents, 2> two_trees(int nodes) {
  std::array<TreeParents, 2> trees;
  for (TreeParents& tree : trees) tree.resize(static_cast<std::size_t>(nodes), -1);
  const auto other = [&](int node) {
    return nodes % 2 == 0 ? nodes - 1 - node : (node + 1) % nodes;
  };
  for (int node = 1; node < nodes; ++node) {
    const int parent = parent_in_order(node, nodes);
    trees[0][static_cast<std::size_t>(node)] = parent;
    trees[1][static_cast<std::size_t>(other(node))] = other(parent);
  }
  return trees;
}

int depth_of(const TreeParents& tree) {
  int depth = 0;
  for (int node : tree) {
    int edges = 0;
    for (; node >= 0; node = tree[static_cast<std::size_t>(node)]) ++edges;
    depth = std::max(depth, edges);
  }
  return depth;
}

}  // namespace moesim
