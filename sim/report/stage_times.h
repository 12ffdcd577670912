// SPDX-License-Identifier: Apache-2.0
// What the token exchanges of a layer take with the cluster to themselves.
#pragma once

#include <map>
#include <tuple>
#include <vector>

#include "sim/plan/backend.h"

namespace moesim {

/// [layer, pass, stage] the exchanges that move tokens out or back, with their minimum times.
using StageExchanges = std::map<std::tuple<int, Pass, Stage>, std::vector<OpId>>;
StageExchanges exchanges_of_stages(const Plan& plan);

/// Makespan of some ops of a plan when nothing else runs.
Seconds time_alone(const PricedPlan& plan, const std::vector<OpId>& ops, SimulatedBackend& backend);

}  // namespace moesim
