// SPDX-License-Identifier: Apache-2.0
#include "sim/plan/kept_loads.h"

#include "sim/topology/use_time.h"

namespace moesim {

LinkLoads KeptLoads::next(const Topology& topology, const GroupTraffic& traffic) {
  if (next_ == loads_.size()) loads_.push_back(topology.loads(traffic));
  LinkLoads loads = loads_[next_++];
  for (LinkUse& use : loads.uses) {
    const Link& link = topology.link(use.link);
    set_time(use, link, link.bandwidth);
  }
  if (traffic.rounds > 0 && !traffic.with_hosts)
    loads.overhead = topology.overhead_of(traffic.matrix);
  return loads;
}

}  // namespace moesim
