// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/planning_options.h"

namespace moesim {

PlanningOptions read_planning_options(const YamlMap& params, PlanningOptions defaults) {
  constexpr Range steps{1, 1 << 20};
  PlanningOptions o = read_move_options(params, defaults);
  o.first = static_cast<int>(params.integer("first", steps, o.first));
  o.window = static_cast<int>(params.integer("window", steps, o.window));
  return o;
}

PlanningOptions read_move_options(const YamlMap& params, PlanningOptions defaults) {
  PlanningOptions o = read_transfer_options(params, defaults);
  o.interval = static_cast<int>(params.integer("interval", {1, 1 << 20}, o.interval));
  return o;
}

PlanningOptions read_transfer_options(const YamlMap& params, PlanningOptions o) {
  o.moves_optimizer =
      params.choice("payload", {"state", "weights"}, o.moves_optimizer ? 0 : 1) == 0;
  o.migrate_blocks =
      params.choice("migration", {"blocks", "overlapped"}, o.migrate_blocks ? 0 : 1) == 0;
  o.planning = params.seconds("planning_time", o.planning);
  o.planning_blocks =
      params.choice("planning", {"hidden", "blocks"}, o.planning_blocks ? 1 : 0) == 1;
  return o;
}

PlanningOptions weights_only() {
  PlanningOptions options;
  options.moves_optimizer = false;
  return options;
}

}  // namespace moesim
