// SPDX-License-Identifier: Apache-2.0
#include "sim/run/planned_steps.h"

#include <utility>

#include "sim/run/backends.h"

namespace moesim {
namespace {

/// Of all ops of the steps that one run keeps; each takes about a hundred bytes.
constexpr std::int64_t most_members = 1 << 19;

std::int64_t members_of(const Plan& plan) {
  std::int64_t members = 0;
  for (const Op& op : plan.ops) members += std::ssize(op.group);
  return members;
}

}  // namespace

PlannedSteps::PlannedSteps(const PolicyRun& run, const PolicyPlanner::Options& options, bool keeps)
    : keeps_(keeps && !run.scenario.iteration),
      looks_(run.cluster.topology),
      planner_((looks_.begin(), run.scenario), run.inputs, run.cluster, run.system, options) {
  looks_.end();
}

PlannedStep& PlannedSteps::step(int i) {
  if (i < std::ssize(steps_)) return *steps_[static_cast<std::size_t>(i)];
  if (!keeps_) steps_.clear();
  looks_.begin();
  auto planned = std::make_unique<PlannedStep>(planner_.plan(i));
  looks_.end();
  members_ += members_of(planned->plan);
  keeps_ = keeps_ && members_ <= most_members;
  if (!keeps_) steps_.clear();
  return *steps_.emplace_back(std::move(planned));
}

void PlannedSteps::price_on(const Topology& topology) {
  if (!keeps_) return;
  std::vector<Seconds> latencies;
  for (const Link& link : topology.links()) {
    latencies.push_back(link.latency);
    crowds_ = crowds_ || link.crowded.pairs > 0;
  }
  if (latencies == latencies_) return;
  latencies_ = std::move(latencies);
  loads_.clear();
}

KeptLoads* PlannedSteps::loads(int i) {
  if (!keeps_ || crowds_) return nullptr;
  while (std::ssize(loads_) <= i) loads_.push_back(std::make_unique<KeptLoads>());
  return loads_[static_cast<std::size_t>(i)].get();
}

void PlannedSteps::plan_all() {
  if (!keeps_) return;
  for (int i = 0; i < planner_.count(); ++i) step(i);
}

Seconds mean_time(PlannedSteps& steps, const ClusterInput& cluster, const SimulatedAt& at) {
  const auto backend = make_backend(at.fidelity, at.order, cluster);
  Seconds sum;
  const int count = steps.planner().count();
  for (int i = 0; i < count; ++i) {
    sum += backend->run(PricedPlan(steps.step(i).plan, cluster.topology, steps.loads(i))).makespan;
  }
  return sum * (1.0 / count);
}

}  // namespace moesim
