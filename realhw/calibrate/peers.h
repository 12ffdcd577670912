// SPDX-License-Identifier: Apache-2.0
// The peers of every GPU at each level of a cluster: the GPUs that it exchanges with when that
// level is calibrated.
#pragma once

#include <string>
#include <vector>

#include "sim/base/byte_matrix.h"
#include "sim/topology/topology.h"

namespace moesim {

/// The peers at one level. Two GPUs are peers if they share a group of this level, but no group of
/// the next inner level. For example, they are on different nodes, or on the same node.
struct PeerSets {
  /// "between nodes", "inside a node"
  std::string name;
  /// The peers of each GPU. First come the GPUs that have its place in the other groups.
  std::vector<std::vector<GpuId>> peers;
  /// The largest number of peers that a GPU has.
  int most() const;

  /// The traffic if every GPU sends `bytes` to each of its first `count` peers.
  ByteMatrix traffic(int count, Bytes bytes) const;
};

/// One set per level, the outermost level first. Leaves out levels at which no GPU has a peer.
std::vector<PeerSets> peer_sets_of(const Topology& topology);

}  // namespace moesim
