// SPDX-License-Identifier: Apache-2.0
#include "sim/plan/exchange_time.h"

#include <algorithm>

namespace moesim {

ExchangeTime exchange_time(const Topology& topology, const LinkLoads& loads) {
  const std::vector<Link>& links = topology.links();
  ExchangeTime time{topology.exchange_overhead(), Seconds(0), Seconds(0)};
  Seconds last = loads.latency;
  for (std::size_t link = 0; link < links.size(); ++link) {
    if (loads.bytes[link] == 0) continue;
    const Seconds work = Bytes(loads.bytes[link]) / links[link].bandwidth;
    time.transfer = std::max(time.transfer, work);
    last = std::max(last, Seconds(loads.first[link]) + work);
  }
  time.latency = last - time.transfer;
  return time;
}

ExchangeTime exchange_time(const Topology& topology, const ByteMatrix& traffic) {
  return exchange_time(topology, topology.loads(traffic));
}

}  // namespace moesim
