// SPDX-License-Identifier: Apache-2.0
// Adds up what an exchange puts on its links, share by share.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "sim/topology/route/routes.h"

namespace moesim {

class LinkSums {
 public:
  /// Of so many links, none of them used.
  explicit LinkSums(std::size_t links) : place_(links, unused) {}

  void put(int link, const Load& load) {
    if (load.bytes == 0) return;
    std::int32_t& place = place_[static_cast<std::size_t>(link)];
    if (place == unused) {
      place = static_cast<std::int32_t>(loads_.uses.size());
      loads_.uses.push_back({LinkId(link), Bytes(0), Seconds(0), Seconds(Load().latency)});
    }
    LinkUse& use = loads_.uses[static_cast<std::size_t>(place)];
    use.bytes += Bytes(load.bytes);
    use.first = std::min(use.first, Seconds(load.latency));
  }

  /// The exchange uses a route of this latency; the longest one counts.
  void note_latency(double seconds) {
    loads_.latency.value = std::max(loads_.latency.value, seconds);
  }

  /// The sums without their times, the links ascending. Leaves nothing behind.
  LinkLoads take() {
    std::ranges::sort(loads_.uses, {}, &LinkUse::link);
    return std::move(loads_);
  }

 private:
  static constexpr std::int32_t unused = -1;
  std::vector<std::int32_t> place_;  // per link, in loads_.uses
  LinkLoads loads_;
};

}  // namespace moesim
