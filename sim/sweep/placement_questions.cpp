// SPDX-License-Identifier: Apache-2.0
// What people ask about placements that plan, as axes.
#include <fmt/format.h>

#include <algorithm>

#include "sim/base/data_files.h"
#include "sim/base/error.h"
#include "sim/scenario/input_cache.h"
#include "sim/scenario/inputs.h"
#include "sim/sweep/questions.h"

namespace moesim {
namespace {

constexpr int asked_iterations = 8;  // if the scenario does not say how many
constexpr int longest_interval = 128;

std::vector<std::string> policies_of(const SweepGrid& grid) {
  const auto axis = std::ranges::find(grid.axes(), "policy", &SweepAxis::name);
  if (axis == grid.axes().end()) return grid.unit(0).policies;
  std::vector<std::string> names;
  for (const AxisPoint& point : axis->points) names.push_back(point.text);
  return names;
}

/// Whether the policy's placement has such a parameter.
bool knows(const Scenario& scenario, const std::string& policy, const std::string& key) {
  std::vector<Override> changes = scenario.overrides_of("policy", policy);
  changes.push_back({"placement." + key, "1", ""});
  try {
    read_system(data_file("models/system", policy), changes);
    return true;
  } catch (const Error&) {
    return false;
  }
}

/// A policy and the parameter of its placement that says how many slots a GPU has.
struct Balancer {
  std::string policy, key;
};

/// Those of the scenario; laer if none of them has slots to choose.
std::vector<Balancer> balancers(const SweepGrid& grid, const Scenario& scenario) {
  std::vector<Balancer> found;
  for (const std::string& policy : policies_of(grid)) {
    for (const char* key : {"slots", "slots_per_gpu"}) {
      if (knows(scenario, policy, key)) found.push_back({policy, key});
    }
  }
  if (found.empty()) found.push_back({"laer", "slots"});
  return found;
}

/// From as many slots as hold each expert once.
std::vector<std::string> slot_counts(const Scenario& scenario) {
  InputCache cache;
  const Inputs inputs = open_shared_inputs(scenario, cache);
  const int ep = inputs.clusters[0].ep > 0 ? inputs.clusters[0].ep : scenario.ep.value_or(1);
  const int least = (inputs.model.experts + ep - 1) / ep;
  std::vector<std::string> counts;
  for (const int more : {0, 1, 2, 4, 8}) counts.push_back(std::to_string(least + more));
  return counts;
}

std::vector<SweepAxis> slots(const SweepGrid& grid) {
  const Scenario scenario = grid.unit(0);
  const std::vector<Balancer> all = balancers(grid, scenario);
  const std::vector<std::string> counts = slot_counts(scenario);
  const auto same_key = [&](const Balancer& b) { return b.key == all.front().key; };
  if (std::ranges::all_of(all, same_key)) {
    std::vector<std::string> names;
    for (const Balancer& b : all) names.push_back(b.policy);
    return {axis_of("policy", names), axis_of("policy.placement." + all.front().key, counts)};
  }
  SweepAxis axis{"policy", false, {}};  // each with a key of its own
  for (const Balancer& b : all) {
    for (const std::string& count : counts) {
      axis.points.push_back({fmt::format("{}, {} slots", b.policy, count),
                             {{"policy", b.policy, ""}, {"policy.placement." + b.key, count, ""}}});
    }
  }
  return {axis};
}

/// Steps or iterations that the scenario has, from which on, and how many planners see before.
struct RecordedSteps {
  int first, count, warmup;
};

RecordedSteps window_of(const Scenario& scenario) {
  if (scenario.iteration) {
    const bool said = scenario.steps.last >= 0;
    const int count = said ? scenario.steps.last - scenario.steps.first : 1;
    return {scenario.steps.first, count > 1 ? count : asked_iterations + 1, scenario.warmup};
  }
  InputCache cache;
  const Inputs inputs = open_shared_inputs(scenario, cache);
  const ClusterInput& cluster = inputs.clusters[0];
  return {cluster.first_step, static_cast<int>(cluster.batches.batches.size()),
          static_cast<int>(cluster.warmup.size())};
}

/// Powers of two, all over the same steps, which each of them divides. The first plan is made for
/// the first of these, so that every interval is charged the moves of one plan.
std::vector<SweepAxis> intervals(const SweepGrid& grid) {
  const Scenario scenario = grid.unit(0);
  RecordedSteps window = window_of(scenario);
  if (window.warmup == 0) {  // a plan needs loads
    ++window.first;
    --window.count;
    window.warmup = 1;
  }
  int longest = 1;
  while (2 * longest <= std::min(window.count, longest_interval)) longest *= 2;
  if (longest < 2) {
    throw Error(fmt::format("--ask eplb-interval: an interval of 2 needs 3 steps, not {}",
                            window.count + 1),
                "more --steps, or fewer --tokens-per-rank");
  }
  const int last = window.first + longest * (window.count / longest);
  SweepAxis axis{"policy.placement.interval", false, {}};
  for (int interval = 1; interval <= longest; interval *= 2) {
    axis.points.push_back({std::to_string(interval),
                           {{"policy.placement.interval", std::to_string(interval), ""},
                            {"policy.placement.first", std::to_string(window.warmup), ""},
                            {"steps", fmt::format("{}:{}", window.first, last), ""},
                            {"warmup", std::to_string(window.warmup), ""}}});
  }
  return {axis_of("policy", {"eplb"}), axis};
}

}  // namespace

std::vector<Question> placement_questions() {
  return {{"eplb-interval", intervals, true}, {"slots", slots, true}};
}

}  // namespace moesim
