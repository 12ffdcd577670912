// SPDX-License-Identifier: Apache-2.0
// The steps of a scenario's policies with all that executes them.
#pragma once

#include "sim/saved/saved_steps.h"
#include "sim/scenario/policy_planner.h"

namespace moesim {

/// Plans the steps of one policy, one after the other, with explicit rows.
class ExecutableSteps {
 public:
  /// All of these must outlive it. Throws Error naming the rule if hardware cannot execute them.
  ExecutableSteps(const Scenario& scenario, const Inputs& inputs, const ClusterInput& cluster,
                  const SystemSpec& system);
  bool done() const { return next_ == steps_.count(); }
  /// Throws Unsuitable as the planner does, and for iterations that move experts' parameters.
  ExecutableStep next();

 private:
  HeldIteration held() const;
  void add_layer(const PlannedLayer& layer, int microbatch, ExecutableStep& step) const;

  const ClusterInput& cluster_;
  const MoeModel& model_;
  PolicyPlanner steps_;
  int next_ = 0;
};

/// `version` is that of the program that plans.
StepsOrigin origin_of(const Scenario& scenario, const Inputs& inputs, const ClusterInput& cluster,
                      const std::string& version);

/// All steps of all policies on one cluster; a policy that it cannot host has none.
std::vector<SavedPolicy> plan_all(const Scenario& scenario, const Inputs& inputs,
                                  const ClusterInput& cluster);

}  // namespace moesim
