// SPDX-License-Identifier: Apache-2.0
#include "sim/run/runs_on.h"

#include <algorithm>

namespace moesim {
namespace {

/// Whose tokens a policy is run on: of iterations balanced ones first, with the first policy only,
/// as the others are compared with it.
std::vector<RoutingSource> routings_of(const Scenario& scenario, bool first_policy) {
  const auto asked = scenario.routings();
  std::vector<RoutingSource> routings;
  for (const RoutingSource source : {RoutingSource::balanced, RoutingSource::recorded}) {
    if (std::ranges::find(asked, source) == asked.end()) continue;
    if (first_policy || asked.size() == 1 || source == RoutingSource::recorded) {
      routings.push_back(source);
    }
  }
  return routings;
}

}  // namespace

std::vector<PolicyRun> runs_on(const Scenario& scenario, const Inputs& inputs, std::size_t place) {
  std::vector<PolicyRun> runs;
  for (std::size_t p = 0; p < inputs.systems.size(); ++p) {
    const PolicyView view = view_of(scenario, inputs, p);
    for (const RoutingSource routing : routings_of(scenario, p == 0)) {
      runs.push_back(
          {view.scenario, view.inputs, view.inputs.clusters[place], view.system, routing});
    }
  }
  return runs;
}

}  // namespace moesim
