// SPDX-License-Identifier: Apache-2.0
// Long simulations say beforehand how long they are likely to take, and then how far they are.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/plan/backend.h"
#include "sim/run/workers.h"

namespace moesim {

/// "likely to take 2 min (6 s for each of 20 steps)", if so many plans such as this one take over
/// ten seconds.
std::optional<std::string> forecast(const std::vector<std::unique_ptr<SimulatedBackend>>& backends,
                                    const PricedPlan& plan, int plans);

/// Tells the forecast before the first of some plans, and of each backend how far it is in a plan.
void report_progress(const std::vector<std::unique_ptr<SimulatedBackend>>& backends,
                     const PricedPlan& plan, int number, int plans, const JobProgress& progress);

}  // namespace moesim
