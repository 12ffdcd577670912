// SPDX-License-Identifier: Apache-2.0
// Hosts as routing sees them. Equal hosts share one type that holds the routes inside it, so that a
// cluster of a thousand nodes costs hardly more memory than one node.
#pragma once

#include <vector>

#include "sim/topology/route/graph.h"
#include "sim/topology/topology.h"

namespace moesim {

/// Where a link crosses the border of a host. `link` counts within the host.
struct Port {
  int vertex = 0;
  int cost = 1;
  double latency = 0;
  int link = 0;
};

/// Vertices and links counted within the host, and the routes to each of its GPUs.
struct HostType {
  explicit HostType(Digraph graph) : inside(std::move(graph)) {}

  Digraph inside;
  std::vector<int> gpus;    // vertex of each GPU, by rank
  std::vector<Port> up;     // out of the host
  std::vector<Port> down;   // into the host
  std::vector<Dag> to_gpu;  // per GPU, from anywhere in the host
  std::vector<std::vector<int>> distance_to_gpu;
  std::vector<std::vector<double>> latency_to_gpu;
  std::vector<std::vector<int>> distance_to_port;  // per port of `up`, to its vertex
  bool connected = true;                           // every GPU reaches every other one inside
};

/// One host: its type, and the ids for which the type's numbers stand.
struct Host {
  int type = 0;
  std::vector<int> vertices;     // by ascending id
  std::vector<int> gpus;         // ranks, ascending
  std::vector<int> out_links;    // links from the host's vertices, ascending; inside and up ones
  std::vector<int> down_links;   // links into the host; -1: a direct link, counted at its sender
  std::vector<int> up_switch;    // per port of `up` the fabric vertex behind it
  std::vector<int> down_switch;  // per port of `down` the fabric vertex before it
  std::vector<int> fabric_up;    // up_switch without repeats
};

/// The cluster cut at the borders of its hosts. Fabric vertices get numbers of their own. A direct
/// link between two hosts gets a fabric vertex, so that every path between hosts crosses the
/// fabric.
struct Borders {
  std::vector<HostType> types;
  std::vector<Host> hosts;
  std::vector<Arc> fabric_arcs;
  int fabric_vertices = 0;
};

/// Throws Error when a host lacks a GPU's vertex or ids are out of range.
Borders cut_at_hosts(const Topology::Parts& parts);

}  // namespace moesim
