// SPDX-License-Identifier: Apache-2.0
#include "sim/plan/kept_loads.h"

#include "sim/topology/asymptote.h"

namespace moesim {

void set_times_anew(LinkLoads& loads, const Topology& topology, const GroupTraffic& traffic) {
  for (LinkUse& use : loads.uses) {
    const Link& link = topology.link(use.link);
    set_time(use, link, link.bandwidth);
  }
  const bool starts = traffic.rounds > 0 && !traffic.with_hosts;
  loads.overhead = starts ? topology.overhead_of(traffic.matrix) : Seconds(0);
}

LinkLoads KeptLoads::next(const Topology& topology, const GroupTraffic& traffic) {
  if (next_ == loads_.size()) loads_.push_back(topology.loads(traffic));
  LinkLoads loads = loads_[next_++];
  set_times_anew(loads, topology, traffic);
  return loads;
}

}  // namespace moesim
