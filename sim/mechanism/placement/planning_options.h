// SPDX-License-Identifier: Apache-2.0
// When a placement is planned anew, what its planner has seen by then, and what that costs.
#pragma once

#include "sim/base/types.h"
#include "sim/base/yaml.h"

namespace moesim {

struct PlanningOptions {
  int interval = 1;             // steps between decisions
  int first = 1;                // steps before the first decision, at least 1
  int window = 1;               // newest steps whose loads are summed
  bool moves_optimizer = true;  // migration carries optimizer state, not only the weights
  bool migrate_blocks = true;   // the step waits for the migration
  Seconds planning;             // of one decision of one layer
  bool planning_blocks = false;

  /// Whether to decide, so many steps having been seen.
  bool due(int steps) const { return steps >= first && (steps - first) % interval == 0; }
};

/// Reads interval, first, window, payload (state or weights), migration (blocks or overlapped),
/// planning_time and planning (hidden or blocks), with the given defaults.
PlanningOptions read_planning_options(const YamlMap& params, PlanningOptions defaults = {});
/// The same without first and window.
PlanningOptions read_move_options(const YamlMap& params, PlanningOptions defaults = {});
/// The same without interval too.
PlanningOptions read_transfer_options(const YamlMap& params, PlanningOptions defaults);

/// Defaults of systems whose migration carries only weights.
PlanningOptions weights_only();

}  // namespace moesim
