// SPDX-License-Identifier: Apache-2.0
// A cluster with other links: faster, slower, or gone.
#pragma once

#include <map>
#include <set>
#include <vector>

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

/// Which rates of a cluster are asked for while it watches, by one thread.
class RateWatch {
 public:
  /// The topology must outlive it.
  explicit RateWatch(const Topology& topology);
  void begin();
  void end();
  bool any() const;
  /// Of changes without failed links those that change what was asked for.
  TopologyChanges seen(TopologyChanges changes) const;

 private:
  const Topology& topology_;
  RateLooks before_;
  std::vector<bool> classes_;
  bool overheads_ = false;
};

/// How many times as fast a link of the class becomes.
double speed_of(LinkId link, int link_class, const TopologyChanges& changes);

/// The whole cluster with routes around what has failed; `topology` is not a slice of one. Throws
/// Error when two GPUs cannot reach each other any more.
Topology changed(const Topology& topology, const TopologyChanges& changes);

}  // namespace moesim
