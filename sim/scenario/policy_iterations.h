// SPDX-License-Identifier: Apache-2.0
// The iterations of a scenario's policies: as they are planned, and with all that executes them.
#pragma once

#include "sim/iteration/iteration_planner.h"
#include "sim/saved/saved_steps.h"
#include "sim/scenario/inputs.h"

namespace moesim {

/// What a scenario says to the planner.
IterationOptions iteration_options(const Scenario& scenario);

/// The iterations that a scenario asks for, first and number. Those before the first that planners
/// see are the warm-up.
struct AskedIterations {
  int first = 0, count = 0;
};
AskedIterations asked_iterations(const Scenario& scenario);

/// Plans the iterations of one policy, one after the other, with explicit rows.
class PolicyIterations {
 public:
  /// All of these must outlive it. Throws Error naming the rule where hardware cannot execute them.
  PolicyIterations(const Scenario& scenario, const Inputs& inputs, const ClusterInput& cluster,
                   const SystemSpec& system);
  bool done() const { return next_ == asked_.count; }
  /// Throws Unsuitable as the planner does, and for policies that move experts' parameters.
  ExecutableStep next();

 private:
  HeldIteration held() const;
  void add_layers(int iteration, ExecutableStep& step) const;

  const ClusterInput& cluster_;
  const MoeModel& model_;
  AskedIterations asked_;
  IterationPlanner planner_;
  int next_ = 0;
};

/// Throws Error naming what of an iteration hardware cannot execute, and what would do instead.
void check_can_execute(const Scenario& scenario, const MoeModel& model);

}  // namespace moesim
