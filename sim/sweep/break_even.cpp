// SPDX-License-Identifier: Apache-2.0
#include "sim/sweep/break_even.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "sim/base/error.h"
#include "sim/run/planned_steps.h"
#include "sim/run/runs_on.h"
#include "sim/run/simulate.h"
#include "sim/run/whatif.h"
#include "sim/run/workers.h"

namespace moesim {
namespace {

constexpr double precision = 0.02;
constexpr double infinite = std::numeric_limits<double>::infinity();

/// The only case of a scenario on clusters that are changed: planned and simulated anew only where
/// that could change plans and times.
class Trials {
 public:
  explicit Trials(const Scenario& scenario)
      : opened_{scenario, open_inputs(scenario)},
        run_(runs_on(opened_.scenario, opened_.inputs, 0).front()),
        looks_(run_.cluster.topology) {
    try {
      auto steps = std::make_unique<PlannedSteps>(
          run_, PolicyPlanner::Options{.routing = run_.routing, .counted = &counted_}, true);
      steps->plan_all();
      if (!steps->all_kept()) return;
      steps->price_on(run_.cluster.topology);
      looks_.begin();
      unchanged_ = mean_time(*steps, run_.cluster, at()).value;
      looks_.end();
      steps_ = std::move(steps);
    } catch (const Error&) {
      // It shows in every trial.
    }
  }

  const Topology& topology() const { return run_.cluster.topology; }

  /// Its time on the cluster as it is; infinite if only a trial would tell.
  double unchanged() const { return steps_ ? unchanged_ : infinite; }

  /// What a change changes that plans or times depend on.
  ClusterChanges effect(const ResourceFactor& change) const {
    ClusterChanges changes = changes_of(what_if(change), topology());
    if (!hosts_take_time(run_.cluster.gpus)) changes.gpus.host = 1;
    if (!steps_) return changes;
    const TopologyChanges planned = steps_->looks().seen(changes.topology);
    if (planned == TopologyChanges{}) changes.topology = looks_.seen(changes.topology);
    return changes;
  }

  /// Infinite if it cannot be on the changed cluster.
  double time_on(const ResourceFactor& change) const {
    try {
      if (!steps_) return planned_anew(change);
      const ClusterChanges changes = effect(change);
      if (changes == ClusterChanges{}) return unchanged_;
      if (!(steps_->looks().seen(changes.topology) == TopologyChanges{})) {
        return planned_anew(changes);
      }
      const ClusterInput cluster = changed(run_.cluster, changes);
      steps_->price_on(cluster.topology);
      return mean_time(*steps_, cluster, at()).value;
    } catch (const Error&) {
      return infinite;
    }
  }

 private:
  static WhatIf what_if(const ResourceFactor& change) {
    return {{fmt::format("{}={:.9g}", change.resource, change.factor)}};
  }
  SimulatedAt at() const { return {run_.scenario.fidelities.front(), run_.scenario.p2p_order}; }

  double planned_anew(const ResourceFactor& change) const {
    const Inputs inputs = changed_inputs(opened_.scenario, opened_.inputs, what_if(change));
    const ComparisonOptions here{.workers = 0};
    return simulate(opened_.scenario, inputs, here).cases[0].metrics.mean_step().value;
  }

  /// The same of steps, whose tokens are cut and counted as they were.
  double planned_anew(const ClusterChanges& changes) const {
    ClusterInput cluster = changed(run_.cluster, changes);
    cluster.batches = run_.cluster.batches;
    cluster.warmup = run_.cluster.warmup;
    const PolicyRun run{run_.scenario, run_.inputs, cluster, run_.system, run_.routing};
    PlannedSteps steps(run, {.routing = run.routing, .counted = &counted_}, false);
    return mean_time(steps, cluster, at()).value;
  }

  OpenedScenario opened_;  // files take longer to read than most trials
  PolicyRun run_;
  RateWatch looks_;                      // of simulations
  mutable CountedLayers counted_;        // also for trials that plan anew
  std::unique_ptr<PlannedSteps> steps_;  // none: it is planned in every trial
  double unchanged_ = 0;
};

class Pair {
 public:
  Pair(const Scenario& faster, const Scenario& slower) : faster_(faster), slower_(slower) {}

  /// How much longer the slower one takes.
  double ahead(const ResourceFactor& change) const {
    return slower_.time_on(change) - faster_.time_on(change);
  }
  /// The same on unchanged clusters; infinite if it is not known.
  double ahead_unchanged() const { return slower_.unchanged() - faster_.unchanged(); }
  /// Whether changes are as good as each other, so that one trial does for both.
  bool same(const ResourceFactor& a, const ResourceFactor& b) const {
    return faster_.effect(a) == faster_.effect(b) && slower_.effect(a) == slower_.effect(b);
  }

  /// Resources of the clusters of both.
  std::vector<std::string> resources() const {
    std::vector<std::string> common = resources_of(faster_.topology());
    const auto others = resources_of(slower_.topology());
    std::erase_if(common, [&](const std::string& name) {
      return std::ranges::find(others, name) == others.end();
    });
    return common;
  }

 private:
  Trials faster_, slower_;
};

}  // namespace

double crossing(const std::function<double(double factor)>& ahead, const CrossingEnds& ends,
                double precision) {
  double near = 0, far = std::log(ends.end);
  double ahead_near = ends.ahead_at_one, ahead_far = ends.ahead_at_end;
  const double whole = std::abs(far);
  // What bisection leaves open after so many trials; a little less, because sums are rounded.
  double left = precision;
  while (left < whole) left *= 2;
  left *= 0.5 * (1 - 1e-9);
  for (double width = whole; width > precision; width = std::abs(far - near), left *= 0.5) {
    const double middle = 0.5 * (near + far);
    double at = middle;
    if (std::isfinite(ahead_near) && std::isfinite(ahead_far)) {
      const double straight = near + (far - near) * ahead_near / (ahead_near - ahead_far);
      const double shift = 0.2 / whole * width * width;
      const double to_middle = std::copysign(1.0, middle - straight);
      at = shift < std::abs(middle - straight) ? straight + to_middle * shift : middle;
      const double slack = std::max(0.0, left - 0.5 * width);
      if (std::abs(at - middle) > slack) at = middle - to_middle * slack;
    }
    const double here = ahead(std::exp(at));
    (here > 0 ? near : far) = at;
    (here > 0 ? ahead_near : ahead_far) = here;
  }
  return std::exp(far);
}

std::vector<ResourceFactor> break_even(const Scenario& faster, const Scenario& slower, int workers,
                                       const std::function<bool()>& stop) {
  const Pair pair(faster, slower);
  std::vector<ResourceFactor> ends;
  for (const std::string& resource : pair.resources()) {
    for (const double factor : {farthest_factor, 1 / farthest_factor}) {
      ends.push_back({resource, factor});
    }
  }
  std::vector<WorkerJob<double>> jobs;  // the factor of each end that differs; infinite: none
  std::vector<std::size_t> job_of;      // [end]
  for (const ResourceFactor& end : ends) {
    const auto twin =
        std::ranges::find_if(ends, [&](const ResourceFactor& e) { return pair.same(e, end); });
    const auto before = static_cast<std::size_t>(twin - ends.begin());
    job_of.push_back(before < job_of.size() ? job_of[before] : jobs.size());
    if (job_of.back() < jobs.size()) continue;
    jobs.push_back({end.resource, [&pair, &stop, end](const JobProgress&) {
                      const double there = stop() ? infinite : pair.ahead(end);
                      if (!(there <= 0)) return infinite;
                      const auto at = [&](double f) { return pair.ahead({end.resource, f}); };
                      return crossing(at, {end.factor, pair.ahead_unchanged(), there}, precision);
                    }});
  }
  std::vector<ResourceFactor> found;
  const std::vector<double> factors = run_jobs(jobs, workers);
  for (std::size_t e = 0; e < ends.size(); ++e) {
    const double factor = factors[job_of[e]];
    if (factor < infinite) found.push_back({ends[e].resource, factor});
  }
  std::ranges::stable_sort(found, {},
                           [](const ResourceFactor& b) { return std::abs(std::log(b.factor)); });
  return found;
}

}  // namespace moesim
