// SPDX-License-Identifier: Apache-2.0
// The bytes that the exchanges of a plan put on links, kept for pricing it again at other
// bandwidths.
#pragma once

#include <cstddef>
#include <vector>

#include "sim/topology/topology.h"

namespace moesim {

class KeptLoads {
 public:
  /// For clusters whose links have equal latencies, and yield no less if they are crowded.
  LinkLoads next(const Topology& topology, const GroupTraffic& traffic);
  /// Begins with the first exchange again.
  void restart() { next_ = 0; }

 private:
  std::vector<LinkLoads> loads_;  // [exchange] in the order of the calls
  std::size_t next_ = 0;
};

}  // namespace moesim
