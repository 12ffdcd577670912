// SPDX-License-Identifier: Apache-2.0
#include "sim/plan/exchange_time.h"

#include <algorithm>

namespace moesim {

ExchangeTime exchange_time(const Topology& topology, const ByteMatrix& traffic) {
  const LinkLoads loads = topology.loads(traffic);
  const std::vector<Link>& links = topology.links();
  ExchangeTime time{topology.exchange_overhead(), loads.latency, Seconds(0)};
  for (std::size_t link = 0; link < links.size(); ++link) {
    time.transfer = std::max(time.transfer, Bytes(loads.bytes[link]) / links[link].bandwidth);
  }
  return time;
}

}  // namespace moesim
