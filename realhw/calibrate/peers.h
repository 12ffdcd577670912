// SPDX-License-Identifier: Apache-2.0
// The peers of a GPU across one nesting level of a cluster.
#pragma once

#include <string>
#include <vector>

#include "sim/base/byte_matrix.h"
#include "sim/topology/topology.h"

namespace moesim {

/// The pairs of GPUs that share a group of one level and none of the next: between nodes, inside a
/// node ...
struct PeerSets {
  std::string name;                       // "between nodes", "inside a node"
  std::vector<std::vector<GpuId>> peers;  // [gpu]; its counterparts in the other groups first
  int most() const;                       // peers of a GPU

  /// Every GPU sends `bytes` to each of its first `count` peers.
  ByteMatrix traffic(int count, Bytes bytes) const;
};

/// Outermost first; levels across which nobody has a peer are left out.
std::vector<PeerSets> peer_sets_of(const Topology& topology);

}  // namespace moesim
