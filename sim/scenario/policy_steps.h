// SPDX-License-Identifier: Apache-2.0
// The steps of a scenario's policies with all that executes them.
#pragma once

#include "sim/saved/saved_steps.h"
#include "sim/scenario/inputs.h"

namespace moesim {

/// Plans the steps of one policy, one after the other, with explicit rows.
class PolicySteps {
 public:
  /// All of these must outlive it.
  PolicySteps(const Scenario& scenario, const Inputs& inputs, const ClusterInput& cluster,
              const SystemSpec& system);
  bool done() const { return next_ == cluster_.batches.batches.size(); }
  /// Throws Unsuitable as the planner does.
  ExecutableStep next();

 private:
  const ClusterInput& cluster_;
  StepPlanner planner_;
  std::size_t next_ = 0;
};

/// `version` is that of the program that plans.
StepsOrigin origin_of(const Scenario& scenario, const Inputs& inputs, const ClusterInput& cluster,
                      const std::string& version);

/// All steps of all policies on one cluster; a policy that it cannot host has none.
std::vector<SavedPolicy> plan_all(const Scenario& scenario, const Inputs& inputs,
                                  const ClusterInput& cluster);

}  // namespace moesim
