// SPDX-License-Identifier: Apache-2.0
#include "sim/scenario/required_state.h"

#include "sim/planner/iteration/least_state.h"
#include "sim/scenario/policy_planner.h"

namespace moesim {

void require_state(const PolicyView& view, const ClusterInput& cluster) {
  const Scenario& scenario = view.scenario;
  if (!scenario.iteration || scenario.serves() || scenario.memory == MemoryCheck::ignore) return;
  const Spec spec = spec_of(scenario);
  const MoeModel& model = view.inputs.model;
  const IterationShape shape = shape_of(spec.spec, cluster.topology.gpu_count(), model);
  const bool divided = view.system.placement.divides_experts;
  check_least_state(least_state(spec, shape, model, divided), shape.grid, cluster.gpus,
                    view.system.name, hint_of_memory(spec, shape.grid, model));
}

}  // namespace moesim
