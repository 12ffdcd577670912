// SPDX-License-Identifier: Apache-2.0
// Flows at rates of our own (MaxMin), on a clock that others share. A link holds no flow back if
// another link of the same routes always does.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "sim/base/types.h"
#include "sim/engine/flow_carrier.h"
#include "sim/plan/simulate/events.h"

namespace moesim {

/// A link is never full if all of its routes also go through another one that is not wider: that
/// carries as much at least. So max-min fair rates stay what they are without it, and a flow that
/// looks at fewer links takes less time. A GPU's lane to its NIC is such a link.
class NeededHops {
 public:
  /// Numbered from 0. A link whose bandwidth changes is needed, and makes no other needless.
  void add_link(BytesPerSecond bandwidth) { links_.push_back({bandwidth.value, false, false, {}}); }
  void add_changing_link() { links_.push_back({0, true, false, {}}); }
  /// Numbered from 0, too.
  void add_route(std::span<const LinkId> links);

  /// Calls take(links) for every route, with those of its links that are needed; forgets all.
  template <class Take>
  void take_routes(Take take) {
    std::vector<bool> needed;
    for (std::size_t l = 0; l < links_.size(); ++l) needed.push_back(is_needed(l));
    std::vector<LinkId> kept;
    for (const LinkId hop : std::vector<LinkId>(std::move(hops_))) {
      if (hop.value >= 0) {
        if (needed[hop.index()]) kept.push_back(hop);
        continue;
      }
      take(std::span<const LinkId>(kept));
      kept.clear();
    }
    *this = {};
  }

 private:
  struct OfLink {
    double bandwidth;
    bool changes, used;
    std::vector<LinkId> always;  // the links of all its routes
  };
  bool is_needed(std::size_t link) const;

  std::vector<OfLink> links_;
  std::vector<LinkId> hops_;  // of the routes, each followed by an id below 0
};

/// Rates are computed once for all flows that start or end together. The events must outlive it.
std::unique_ptr<FlowCarrier> make_max_min_carrier(Events& events);

}  // namespace moesim
