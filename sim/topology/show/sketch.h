// SPDX-License-Identifier: Apache-2.0
// A cluster reduced to what is worth drawing: a thousand equal nodes are one node and a number.
#pragma once

#include <string>
#include <vector>

#include "sim/topology/topology.h"

namespace moesim {

/// Vertices, hosts and cables to draw; each may stand for several that look alike.
struct Sketch {
  struct Node {
    std::string label;
    VertexKind kind;
    int host = -1;  // index into hosts
    int count = 1;  // within its host, or in the whole fabric
  };
  struct Host {
    std::string label;
    int count = 1;
  };
  struct Edge {
    int a = 0, b = 0;  // nodes; equal for cables among look-alikes
    int link_class = 0;
    double per_a = 1;  // cables at each vertex that `a` stands for
    double per_b = 1;
    bool one_way = false;  // from a to b only
  };
  std::vector<Node> nodes;
  std::vector<Host> hosts;
  std::vector<Edge> edges;
};

/// With `everything`, all vertices; else one host of each look and each look of the fabric once.
Sketch make_sketch(const Topology& topology, bool everything);

/// Colours of vertices such that equal ones have equal kinds and equally coloured neighbours over
/// equal links (the coarsest such colouring, by refinement).
std::vector<int> look_alike_colors(const Topology& topology);

}  // namespace moesim
