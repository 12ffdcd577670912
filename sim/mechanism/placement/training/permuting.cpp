// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/training/permuting.h"

#include <algorithm>

#include "sim/mechanism/placement/training/expert_copies.h"

namespace moesim {

Permuting::Permuting(const PlacementContext& context, const PlanningOptions& options)
    : GroupPlanner(context, options, contiguous_homes(context)) {}

void Permuting::move(LayerDecision& decision, const SlotTable& before,
                     const SlotTable& after) const {
  std::vector<ExpertTransfer> all;
  for (int g = 0; g < groups().count(); ++g) {
    const auto from = owners_of(groups().part(before, g));
    const auto to = owners_of(groups().part(after, g));
    std::vector<ExpertTransfer> moves;
    for (std::size_t e = 0; e < from.size(); ++e) {
      if (from[e] == to[e]) continue;
      moves.push_back({ExpertId(static_cast<std::int64_t>(e)), from[e], to[e], payload()});
    }
    std::ranges::copy(groups().lifted(std::move(moves), g), std::back_inserter(all));
  }
  decision.migrate.push_back({"migrate", groups().traffic(all), {}, {}});
}

}  // namespace moesim
