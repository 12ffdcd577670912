// SPDX-License-Identifier: Apache-2.0
#include "sim/run/plan_to_run.h"

#include <algorithm>
#include <utility>

namespace moesim {

bool may_stand_for_others(const PolicyRun& run, const ComparisonOptions& asked) {
  if (!run.scenario.trains() || asked.every_gpu || asked.elasticities) return false;
  return run.timeline == nullptr &&
         std::ranges::all_of(run.scenario.fidelities, [](Fidelity fidelity) {
           return fidelity == Fidelity::port || fidelity == Fidelity::analytic;
         });
}

bool may_continue(const PolicyRun& run, const ComparisonOptions& asked) {
  const bool draws = run.timeline != nullptr || asked.pictures;
  return !draws && !asked.every_microbatch && !asked.bounds && !asked.least_times &&
         !asked.elasticities;
}

PlanToRun::PlanToRun(Plan& whole, const ClusterInput& cluster, bool may_stand_for_others,
                     KeptLoads* kept)
    : of_all_(whole, cluster.topology, kept) {
  if (may_stand_for_others) representatives_ = moesim::representatives(whole, cluster.gpus);
  if (representatives_.empty()) return;
  fewer_ = plan_of(representatives_.gpus, std::move(whole));
  of_fewer_.emplace(fewer_, std::move(of_all_));
}

}  // namespace moesim
