// SPDX-License-Identifier: Apache-2.0
// The exchanges that a calibration measures, and the peers of every GPU at each level of a cluster.
#pragma once

#include <string>
#include <vector>

#include "realhw/calibrate/micro_plan.h"
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

struct ExchangeSizes {
  Seconds longest{0.1};        // of an exchange, by the topology's bandwidths
  Bytes most{256 << 20};       // that a GPU sends in an exchange
  double step = 1.4142135623;  // ratio of neighbouring sizes of a table
};

enum class ExchangePurpose {
  overhead,  // one byte to each of 1, 2, 4 ... peers ("tiny"), and exchanges of nothing ("empty")
  table,     // all-to-alls by size: what link tables are fitted to
  check,     // other exchanges by size: sends to one peer, everything at once, uneven traffic
  together   // two exchanges at a time on two streams
};

struct ExchangePlan {
  ExchangePurpose purpose;
  MicroPlan micro;
};

/// For every pair of neighbouring levels (PeerSets) and for the whole cluster. A settling exchange
/// comes before each (before each two that run at once), so that all ranks start together.
std::vector<ExchangePlan> exchange_plans(const Topology& topology, const ExchangeSizes& sizes);

}  // namespace moesim
