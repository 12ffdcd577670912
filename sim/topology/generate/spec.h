// SPDX-License-Identifier: Apache-2.0
// What a topology file asks the generators for.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/types.h"
#include "sim/topology/topology.h"

namespace moesim {

struct Wire {
  BytesPerSecond bandwidth;  // per direction
  Seconds latency;
  Crowding crowded = {};
  std::shared_ptr<const BandwidthTable> table = {};
};

/// How the GPUs of a node are joined by NVLink: not at all, all behind one switch, in pairs
/// (0-1, 2-3 ...), or each with every other one.
enum class NvlinkKind { none, behind_switch, pairs, mesh };

struct PcieSpec {
  bool stated = false;  // else each NIC has a link of its own, as fast as it is
  Wire link;
  int sockets = 0;   // 0: no tree, NICs hang directly at their GPUs
  int switches = 0;  // per socket; 0: GPUs hang at the socket
  Wire socket;       // between two sockets
};

struct NodeSpec {
  std::string gpu;
  int gpus = 1;
  NvlinkKind nvlink = NvlinkKind::none;
  Wire nvlink_wire;
  PcieSpec pcie;
  std::optional<Wire> c2c;  // of each GPU to the memory of its CPU, next to PCIe
  int nics = 0;
  Wire nic;
  /// Whether several NICs share the PCIe link of one GPU.
  bool shares_ports() const { return pcie.stated && pcie.sockets == 0 && nics > gpus; }
};

struct NodeGroup {
  int count = 1;
  NodeSpec node;
};

enum class FabricKind { none, one_switch, rail, leaf_spine, fat_tree, dragonfly, torus };
enum class CrossRail { pxn, spine };

/// The fields that a kind does not use keep their defaults.
struct FabricSpec {
  FabricKind kind = FabricKind::none;
  int nodes_per_leaf = 0;  // 0: all of them
  int spines = 1;          // rail: per rail with pxn, else in all; fat-tree: per pod
  double oversubscription = 1;
  CrossRail cross_rail = CrossRail::pxn;
  int leaves_per_pod = 1;
  int cores = 1;
  double core_oversubscription = 1;
  Seconds latency;  // of links between switches
  int groups = 1, routers = 1, nodes_per_router = 1;
  Wire local, global;
  std::vector<int> dimensions;
};

/// One data center.
struct SiteSpec {
  std::vector<NodeGroup> groups;
  FabricSpec fabric;
  int nodes() const {
    int sum = 0;
    for (const NodeGroup& group : groups) sum += group.count;
    return sum;
  }
};

enum class WanKind { hub, mesh, pairs };

struct WanSpec {
  struct Special {  // hub: a data center and -1; otherwise two data centers
    int a = 0, b = -1;
    Wire wire;
  };
  WanKind kind = WanKind::hub;
  Wire wire;  // unused by pairs
  std::vector<Special> special;
};

struct ClusterSpec {
  std::string name;
  Seconds exchange_overhead, peer_overhead;
  std::string network, measured_with;
  std::vector<SiteSpec> sites;
  WanSpec wan;
};

}  // namespace moesim
