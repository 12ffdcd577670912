// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/planning_options.h"

#include <string>
#include <vector>

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
  std::vector<std::string> names = {"blocks", "overlapped"};
  if (o.may_be_asynchronous) names.emplace_back("asynchronous");
  o.migration =
      static_cast<Migration>(params.choice("migration", names, static_cast<int>(o.migration)));
  if (o.migration == Migration::asynchronous) {
    constexpr Range counts{1, 1 << 20};
    o.layers_per_step =
        static_cast<int>(params.integer("layers_per_step", counts, o.layers_per_step));
    o.experts_per_step =
        static_cast<int>(params.integer("experts_per_step", {0, 1 << 20}, o.experts_per_step));
  }
  o.planning = params.seconds("planning_time", o.planning);
  o.planning_blocks =
      params.choice("planning", {"hidden", "blocks"}, o.planning_blocks ? 1 : 0) == 1;
  return o;
}

int read_lag(const YamlMap& params, int otherwise) {
  return static_cast<int>(params.integer("lag", {1, 1 << 20}, otherwise));
}

PlanningOptions weights_only() {
  PlanningOptions options;
  options.moves_optimizer = false;
  return options;
}

PlanningOptions weights_at_leisure() {
  PlanningOptions options = weights_only();
  options.may_be_asynchronous = true;
  return options;
}

}  // namespace moesim
