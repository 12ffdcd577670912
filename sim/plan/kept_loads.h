// SPDX-License-Identifier: Apache-2.0
// Bytes that exchanges put on links, kept for pricing them again: at other bandwidths, or by
// another transport.
#pragma once

#include <cstddef>
#include <vector>

#include "sim/base/group_traffic.h"
#include "sim/topology/topology.h"

namespace moesim {

/// Gives loads, whose bytes stay, times and overhead as Topology::loads does. For clusters whose
/// links have equal latencies, and yield no less if they are crowded.
void set_times_anew(LinkLoads& loads, const Topology& topology, const GroupTraffic& traffic);

class KeptLoads {
 public:
  /// For the same clusters.
  LinkLoads next(const Topology& topology, const GroupTraffic& traffic);
  /// Begins with the first exchange again.
  void restart() { next_ = 0; }

 private:
  std::vector<LinkLoads> loads_;  // [exchange] in the order of the calls
  std::size_t next_ = 0;
};

}  // namespace moesim
