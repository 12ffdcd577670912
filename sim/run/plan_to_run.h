// SPDX-License-Identifier: Apache-2.0
// The plan of a step as it is simulated: for all GPUs, or for some that stand for all.
#pragma once

#include <optional>

#include "sim/plan/priced.h"
#include "sim/plan/representatives.h"
#include "sim/run/comparison_options.h"
#include "sim/run/policy_run.h"

namespace moesim {

/// Whether alike GPUs may be simulated once: exchanges end for all members together, and nothing
/// that is asked for needs the whole plan.
bool may_stand_for_others(const PolicyRun& run, const ComparisonOptions& asked);

/// Whether an iteration of fewer microbatches may be simulated and its steady state continued.
bool may_continue(const PolicyRun& run, const ComparisonOptions& asked);

class PlanToRun {
 public:
  /// Takes the ops of `whole`, which must outlive it, if some GPUs may stand for all and do.
  PlanToRun(Plan& whole, const ClusterInput& cluster, bool may_stand_for_others,
            KeptLoads* kept = nullptr);
  PlanToRun(const PlanToRun&) = delete;

  const PricedPlan& priced() const { return of_fewer_ ? *of_fewer_ : of_all_; }
  /// Nobody if all GPUs are simulated.
  const Representatives& representatives() const { return representatives_; }

 private:
  PricedPlan of_all_;
  Representatives representatives_;
  Plan fewer_;
  std::optional<PricedPlan> of_fewer_;
};

}  // namespace moesim
