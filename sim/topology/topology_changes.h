// SPDX-License-Identifier: Apache-2.0
// A cluster with other links: faster, slower, or gone.
#pragma once

#include <map>
#include <set>

#include "sim/topology/topology.h"

namespace moesim {

/// Factors of bandwidths and latencies, and links that carry nothing any more.
struct TopologyChanges {
  std::map<int, double> bandwidth = {};          // by link class
  std::map<int, double> latency = {};            // by link class
  double overhead = 1;                           // of exchanges
  std::map<LinkId, double> link_bandwidth = {};  // besides that of the class
  std::set<LinkId> failed = {};

  bool operator==(const TopologyChanges&) const = default;
};

/// How many times as fast a link of the class becomes.
double speed_of(LinkId link, int link_class, const TopologyChanges& changes);

/// The whole cluster with routes around what has failed; `topology` is not a slice of one. Throws
/// Error when two GPUs cannot reach each other any more.
Topology changed(const Topology& topology, const TopologyChanges& changes);

}  // namespace moesim
