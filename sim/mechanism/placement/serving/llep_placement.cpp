// SPDX-License-Identifier: Apache-2.0
// LLEP, least-loaded expert parallelism (arXiv 2601.17111): once the gate has spoken, GPUs above
// capacity hand token-slots to the least loaded ones, with the weights of their experts.
#include <algorithm>
#include <set>

#include "sim/mechanism/mechanisms.h"
#include "sim/mechanism/owners.h"
#include "sim/mechanism/placement/serving/llep.h"
#include "sim/mechanism/placement/serving/serving.h"

namespace moesim {
namespace {

struct LlepOptions {
  llep::Parameters parameters;
  double lambda = 0;
  bool keeps = false;  // received weights until the backward pass
  Seconds planning;
};

/// Everyone keeps its experts: what is done below lambda.
llep::Plan native(std::span<const std::int64_t> counts, int gpus) {
  return llep::plan(std::vector<std::int64_t>(counts.size()), gpus, {});
}

PlanningOptions when(const LlepOptions& o) {
  PlanningOptions options;
  options.planning = o.planning;
  options.planning_blocks = true;
  return options;
}

class Llep final : public GroupPlanner {
 public:
  Llep(const PlacementContext& c, const LlepOptions& o)
      : GroupPlanner(c, when(o), contiguous_homes(c.experts, c.groups.size(), c.groups.size())),
        o_(o),
        plans_(static_cast<std::size_t>(c.groups.count())) {}
  bool reacts() const override { return true; }

 private:
  StepSlots in_step(const GroupStep& at) override {
    llep::Plan& plan = plans_[static_cast<std::size_t>(at.group)];
    plan = plan_of(at.loads);
    StepSlots step{llep::table(plan)};
    step.planned = step.after_gate = true;
    // One per expert and GPU, though upstream may cut two chunks for the same.
    const std::int64_t parameters = context().model.expert_parameters();
    const Bytes weights(parameters * size_of(context().model.weights));
    const Bytes gradients(parameters * context().state.gradient);
    const std::set<WeightMove> moves(plan.transfers.begin(), plan.transfers.end());
    for (const WeightMove& move : moves) {
      step.gather.push_back({move.expert, move.from, move.to, weights});
      step.reduce.push_back({move.expert, move.to, move.from, gradients});
    }
    return step;
  }

  Assignment assign(const GroupStep& at, Placement slots) override {
    const llep::Plan& plan = plans_[static_cast<std::size_t>(at.group)];
    if (plan.transfers.empty()) return Assignment(slots, slots.gpus());
    return Assignment(std::move(slots), llep::shares(plan, at.loads));
  }

  void finish(LayerDecision& decision, const SlotTable& owned,
              std::span<const StepSlots> steps) const override {
    std::vector<ExpertTransfer> weights, gradients;
    for (int g = 0; g < groups().count(); ++g) {
      const StepSlots& step = steps[static_cast<std::size_t>(g)];
      std::ranges::copy(groups().lifted(step.gather, g), std::back_inserter(weights));
      std::ranges::copy(groups().lifted(step.reduce, g), std::back_inserter(gradients));
    }
    if (!weights.empty()) {
      decision.gather.push_back({"spill", groups().traffic(weights), {}, {}});
      if (context().backward) {
        if (!o_.keeps) decision.regather = decision.gather;
        decision.reduce.push_back({"spill-grad", groups().traffic(gradients), {}, {}});
      }
    }
    decision.memory = memory_of(decision.assignment.placement());
    decision.gradient_homes = owned;
  }

  llep::Plan plan_of(const LoadMatrix& loads) const {
    const auto counts = loads.per_expert();
    return llep::applies(counts, ep(), o_.lambda) ? llep::plan(counts, ep(), o_.parameters)
                                                  : native(counts, ep());
  }

  /// Whole experts where they are owned; received ones while the layer computes, or their weights
  /// until the backward pass.
  std::vector<ExpertMemory> memory_of(const Placement& placement) const {
    std::vector<ExpertMemory> memory;
    const int owned = context().experts / ep();
    const std::int64_t parameters = context().model.expert_parameters();
    const auto bytes = [&](int experts, int each) { return Bytes(experts * parameters * each); };
    const int weight = size_of(context().model.weights);
    for (int g = 0; g < placement.gpus(); ++g) {
      const int received = placement.slots_on(GpuId(g)) - owned;
      ExpertMemory gpu;
      gpu.weights = bytes(owned, weight);
      (o_.keeps && context().backward ? gpu.weights : gpu.gathered) += bytes(received, weight);
      if (context().backward) {
        gpu.gradients = bytes(owned, context().state.gradient);
        gpu.optimizer = bytes(owned, context().state.optimizer);
        gpu.gathered += bytes(received, context().state.gradient);
      }
      memory.push_back(gpu);
    }
    return memory;
  }

  LlepOptions o_;
  std::vector<llep::Plan> plans_;  // [EP group] of the layer that is being decided
};

}  // namespace

// lambda: experts spill when the largest over the mean load of the EP group's ranks reaches it
// (default 0: always); alpha: capacity of a rank over the mean load (1.1); least_chunk: token-slots
// worth a transfer (1024). Defaults are published. received: regather (default: weights are dropped
// after the forward pass and sent again) or keep (unstated). planning_time: of every layer, its
// dispatch waits (0 us, unstated; the all-gather of counts is not simulated).
PlacementMaker read_llep(const YamlMap& params) {
  LlepOptions o;
  o.lambda = params.number("lambda", non_negative, 0);
  o.parameters.alpha = params.number("alpha", positive, 1.1);
  o.parameters.least_chunk = params.integer("least_chunk", {1, 1 << 30}, 1024);
  o.keeps = params.choice("received", {"regather", "keep"}, 0) == 1;
  o.planning = params.seconds("planning_time", Seconds(0));
  return [o](const PlacementContext& context) {
    unless_unsuitable([&] {
      const std::vector<std::int64_t> none(static_cast<std::size_t>(context.experts));
      return native(none, context.groups.size());
    });
    return std::make_unique<Llep>(context, o);
  };
}

}  // namespace moesim
