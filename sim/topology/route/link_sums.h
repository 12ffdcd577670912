// SPDX-License-Identifier: Apache-2.0
// Adds up what an exchange puts on its links, share by share.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>

#include "sim/topology/route/routes.h"

namespace moesim {

class LinkSums {
 public:
  /// Of so many links, none of them used.
  explicit LinkSums(std::size_t links) {
    loads_.bytes.assign(links, 0);
    loads_.first.assign(links, Load().latency);
  }

  void put(int link, const Load& load) {
    if (load.bytes == 0) return;
    const auto at = static_cast<std::size_t>(link);
    if (loads_.bytes[at] == 0) loads_.used.push_back(at);
    loads_.bytes[at] += load.bytes;
    loads_.first[at] = std::min(loads_.first[at], load.latency);
  }

  /// The exchange uses a route of this latency; the longest one counts.
  void note_latency(double seconds) {
    loads_.latency.value = std::max(loads_.latency.value, seconds);
  }

  /// The sums, with the used links in ascending order. Leaves nothing behind.
  LinkLoads take() {
    std::ranges::sort(loads_.used);
    return std::move(loads_);
  }

 private:
  LinkLoads loads_;
};

}  // namespace moesim
