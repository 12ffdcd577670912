// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/serving/spilling.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "sim/base/unsuitable.h"
#include "sim/mechanism/owners.h"

namespace moesim {
namespace {

PlanningOptions when_spilling(const SpillOptions& o) {
  PlanningOptions options;
  options.planning = o.planning;
  options.planning_blocks = !o.before_gate;
  return options;
}

SlotTable native_homes(const PlacementContext& c) {
  check_native(c);
  return contiguous_homes(c.experts, c.groups.size(), c.groups.size());
}

}  // namespace

Spilling::Spilling(const PlacementContext& c, const SpillOptions& o)
    : GroupPlanner(c, when_spilling(o), native_homes(c)),
      options_(o),
      plans_(static_cast<std::size_t>(c.groups.count())) {}

StepSlots Spilling::in_step(const GroupStep& at) {
  llep::Plan& plan = plans_[static_cast<std::size_t>(at.group)];
  plan = plan_of(at);
  StepSlots step{llep::table(plan)};
  step.planned = true;
  step.after_gate = !options_.before_gate;
  // One per expert and GPU, though a plan may cut two chunks for the same.
  const std::int64_t parameters = context().model.expert_parameters();
  const Bytes weights = bytes_of(parameters, context().model.weights);
  const Bytes gradients(parameters * context().state.gradient);
  const std::set<WeightMove> moves(plan.transfers.begin(), plan.transfers.end());
  for (const WeightMove& move : moves) {
    step.gather.push_back({move.expert, move.from, move.to, weights});
    step.reduce.push_back({move.expert, move.to, move.from, gradients});
  }
  return step;
}

Assignment Spilling::assign(const GroupStep& at, Placement slots) {
  const llep::Plan& plan = plan_now(at);
  if (plan.transfers.empty()) return Assignment(slots, slots.gpus());
  return Assignment(std::move(slots), llep::shares(plan, at.loads));
}

void Spilling::finish(LayerDecision& decision, const SlotTable& owned,
                      std::span<const StepSlots> steps) const {
  std::vector<ExpertTransfer> weights, gradients;
  for (int g = 0; g < groups().count(); ++g) {
    const StepSlots& step = steps[static_cast<std::size_t>(g)];
    std::ranges::copy(groups().lifted(step.gather, g), std::back_inserter(weights));
    std::ranges::copy(groups().lifted(step.reduce, g), std::back_inserter(gradients));
  }
  if (!weights.empty()) {
    decision.gather.push_back({"spill", groups().traffic(weights), {}, {}});
    if (context().backward) {
      if (!options_.keeps) decision.regather = decision.gather;
      decision.reduce.push_back({"spill-grad", groups().traffic(gradients), {}, {}});
    }
  }
  decision.memory = memory_of(decision.assignment.placement());
  decision.gradient_homes = owned;
}

/// Whole experts where they are owned; received ones while the layer computes, or their weights
/// until the backward pass.
std::vector<ExpertMemory> Spilling::memory_of(const Placement& placement) const {
  std::vector<ExpertMemory> memory;
  const int owned = context().experts / ep();
  const std::int64_t parameters = context().model.expert_parameters();
  const auto bytes = [&](int experts, int each) { return Bytes(experts * parameters * each); };
  const auto weights = [&](int experts) {
    return bytes_of(experts * parameters, context().model.weights);
  };
  for (int g = 0; g < placement.gpus(); ++g) {
    const int received = placement.slots_on(GpuId(g)) - owned;
    ExpertMemory gpu;
    gpu.weights = weights(owned);
    (options_.keeps && context().backward ? gpu.weights : gpu.gathered) += weights(received);
    if (context().backward) {
      gpu.gradients = bytes(owned, context().state.gradient);
      gpu.optimizer = bytes(owned, context().state.optimizer);
      gpu.gathered += bytes(received, context().state.gradient);
    }
    memory.push_back(gpu);
  }
  return memory;
}

SpillOptions read_spill_options(const YamlMap& params) {
  SpillOptions o;
  o.keeps = params.choice("received", {"regather", "keep"}, 1) == 1;
  o.planning = params.seconds("planning_time", Seconds(0));
  return o;
}

llep::Plan native_plan(std::size_t experts, int gpus) {
  return llep::plan(std::vector<std::int64_t>(experts), gpus, {});
}

void check_native(const PlacementContext& context) {
  const int experts = context.experts, ranks = context.groups.size();
  if (experts > 0 && experts % ranks == 0) return;
  throw Unsuitable(
      fmt::format("'{}' cannot spread {} experts over {} GPUs", context.who, experts, ranks),
      "the GPUs must divide the experts");
}

}  // namespace moesim
