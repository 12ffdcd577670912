// SPDX-License-Identifier: Apache-2.0
// When a placement is planned anew, what its planner has seen by then, and what that costs.
#pragma once

#include "sim/base/types.h"
#include "sim/base/yaml.h"
#include "sim/mechanism/placement/migration.h"

namespace moesim {

struct PlanningOptions {
  int interval = 1;             // steps between decisions
  int first = 1;                // steps before the first decision, at least 1
  int window = 1;               // newest steps whose loads are summed
  int lag = 1;                  // steps that the newest loads are old which a decision knows
  bool moves_optimizer = true;  // migration carries optimizer state, not only the weights
  Migration migration = Migration::blocks;
  bool may_be_asynchronous = false;  // the planner's slots may change later than it plans
  /// Of asynchronous migration: the most layers that move at once, and experts that a GPU receives
  /// for one of them in a step (0: all).
  int layers_per_step = 1;
  int experts_per_step = 0;
  Seconds planning;  // of one decision of one layer
  bool planning_blocks = false;

  /// Whether to decide, so many steps having been seen.
  bool due(int steps) const { return steps >= first && (steps - first) % interval == 0; }
  /// The steps before the first decision that knows loads.
  int first_plan() const {
    int steps = first;
    while (steps < lag) steps += interval;
    return steps;
  }
};

/// Reads interval, first, window, payload (state or weights), migration (blocks or overlapped),
/// planning_time and planning (hidden or blocks), with the given defaults.
PlanningOptions read_planning_options(const YamlMap& params, PlanningOptions defaults = {});
/// The same without first and window.
PlanningOptions read_move_options(const YamlMap& params, PlanningOptions defaults = {});
/// The same without interval too. If migration may be asynchronous and is, also layers_per_step and
/// experts_per_step.
PlanningOptions read_transfer_options(const YamlMap& params, PlanningOptions defaults);

/// Reads lag, for planners that know nothing but the loads of their window.
int read_lag(const YamlMap& params, int otherwise = 1);

/// Defaults of systems whose migration carries only weights.
PlanningOptions weights_only();
/// The same, if migration may be asynchronous.
PlanningOptions weights_at_leisure();

}  // namespace moesim
