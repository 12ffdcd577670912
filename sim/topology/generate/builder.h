// SPDX-License-Identifier: Apache-2.0
// Puts a cluster's parts together: what all generators share.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "sim/topology/cluster_limits.h"
#include "sim/topology/generate/spec.h"
#include "sim/topology/topology.h"

namespace moesim {

/// Routing costs of the generators. Routes of least cost then prefer NVLink to a detour through the
/// fabric, a fabric to its gateway, and any path within a data center to the WAN.
namespace cost {
inline constexpr int nvlink = 2, pcie = 4, socket = 4, nic = 4, fabric = 4, cheap_fabric = 1,
                     global = 12, gateway = 100, wan = 10'000;
}

/// A NIC that is not yet joined to a fabric.
struct Nic {
  int vertex;
  int node;  // within its data center
  int rail;  // within its node
  Wire wire;
};

class Builder {
 public:
  int vertex(std::string name, VertexKind kind, int host = -1);
  /// A cable: both directions, in a class that is made on first use.
  void cable(int a, int b, const std::string& link_class, Tier tier, Wire wire, int cost);
  void attach(const Nic& nic, int fabric_vertex);
  int next_host() { return hosts_++; }
  /// Adds the next rank. groups: depth -> the GPU's group there.
  void gpu(int vertex, const std::string& model, std::map<int, int> groups);
  /// What copies of the newest ranks to the memory of their host go to, one vertex each.
  void host_memory(const std::vector<int>& vertices);
  /// A new group number at one depth (see level_names in builder.cpp).
  int next_group(int depth) { return group_count_[depth]++; }
  Topology::Parts take(std::string name, Seconds exchange_overhead, Seconds peer_overhead);

 private:
  Topology::Parts parts_;
  int hosts_ = 0;
  std::map<int, int> group_count_;
  std::vector<std::map<int, int>> groups_of_;  // per rank: depth -> group
};

/// Depths of nesting, outermost first; a level that cuts no finer than the one above it is left
/// out.
namespace depth {
inline constexpr int data_center = 0, node = 1, socket = 2, pcie_switch = 3, pair = 4;
}

/// Generators. Each adds vertices and cables; `prefix` starts all names.
std::vector<Nic> build_node(Builder& builder, const NodeSpec& spec, const std::string& prefix,
                            int node, int data_center_group);
/// Joins the NICs; returns the vertices where a gateway to other data centers attaches (none when
/// the NICs attach to it themselves).
std::vector<int> build_fabric(Builder& builder, const FabricSpec& spec,
                              const std::vector<Nic>& nics, int nodes, const std::string& prefix);
void build_wan(Builder& builder, const WanSpec& spec, const std::vector<int>& routers);
/// Throws Error for a cluster above the limits.
Topology::Parts build_cluster(const ClusterSpec& spec, const ClusterLimits& limits);

}  // namespace moesim
