// SPDX-License-Identifier: Apache-2.0
// The steps of a run as they are planned, and kept for runs that would plan the same.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "sim/run/elasticities.h"
#include "sim/run/policy_run.h"
#include "sim/scenario/policy_planner.h"
#include "sim/topology/topology_changes.h"

namespace moesim {

class PlannedSteps {
 public:
  /// All that the run refers to must outlive it. Throws as PolicyPlanner. It keeps steps if it is
  /// told to, and they are not whole iterations nor too many.
  PlannedSteps(const PolicyRun& run, const PolicyPlanner::Options& options, bool keeps);

  PolicyPlanner& planner() { return planner_; }
  const PolicyPlanner& planner() const { return planner_; }
  /// The i-th, after those before it. The next one takes its place unless it is kept.
  PlannedStep& step(int i);
  /// Plans and keeps all that are left, if it keeps any.
  void plan_all();
  /// They are priced on this cluster from now on, whose links are those that they were planned for
  /// but for rates.
  void price_on(const Topology& topology);
  /// What pricing the i-th step may keep for the next time; null: nothing.
  KeptLoads* loads(int i);

  /// Whether all steps are there: for any run that differs only in what planners did not look at.
  bool all_kept() const { return keeps_ && std::ssize(steps_) == planner_.count(); }
  /// Rates of the cluster that planners have looked at.
  const RateWatch& looks() const { return looks_; }

 private:
  bool keeps_;
  RateWatch looks_;
  PolicyPlanner planner_;
  std::int64_t members_ = 0;  // of all ops that are kept
  std::vector<std::unique_ptr<PlannedStep>> steps_;
  std::vector<std::unique_ptr<KeptLoads>> loads_;  // [step]
  std::vector<Seconds> latencies_;                 // [link] that they were worked out with
  bool crowds_ = false;                            // some link yields less if it is crowded
};

/// The mean time of steps that are all kept, on the cluster that they are priced on.
Seconds mean_time(PlannedSteps& steps, const ClusterInput& cluster, const SimulatedAt& at);

}  // namespace moesim
