// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/fsep/planner.h"

#include <fmt/format.h>

#include "sim/base/error.h"

namespace moesim::fsep {

Decision plan(const LoadMatrix& loads, const SlotGrid& grid, const PlannerOptions& options) {
  const std::vector<std::int64_t> per_expert = loads.per_expert();
  Decision decision;
  const auto weigh = [&](std::string name, Replicas replicas) {
    Placed placed = place(per_expert, replicas.of, grid);
    const Placement placement(loads.experts(), placed.slots);
    const Reach reach(placement, grid.ranks_per_node);
    const Cost c = options.links ? cost(loads, reach, options.cost, options.links)
                                 : cost(loads, reach, options.cost);
    decision.candidates.push_back({std::move(name), std::move(replicas), std::move(placed), c});
  };
  grid.check(loads.experts());
  if (options.even) {
    if (auto even = even_replicas(loads.experts(), grid)) weigh("even", std::move(*even));
  }
  if (options.queue) weigh("pq", queue_replicas(per_expert, grid));
  if (decision.candidates.empty()) {
    throw Error(fmt::format("no candidate placement of {} experts on {} slots", loads.experts(),
                            grid.slots()),
                "even copies need a number of experts that divides the slots");
  }
  for (std::size_t c = 1; c < decision.candidates.size(); ++c) {
    if (decision.candidates[c].cost.total() < decision.choice().cost.total()) decision.chosen = c;
  }
  return decision;
}

}  // namespace moesim::fsep
