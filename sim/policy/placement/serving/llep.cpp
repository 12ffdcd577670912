// SPDX-License-Identifier: Apache-2.0
// LLEP, least-loaded expert parallelism (arXiv 2601.17111): once the gate has spoken, GPUs above
// capacity hand token-slots to the least loaded ones, with the weights of their experts.
#include "sim/balance/serving/llep.h"

#include <algorithm>
#include <set>

#include "sim/balance/training/owners.h"
#include "sim/policy/placement/serving/serving.h"
#include "sim/policy/policies.h"

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

class Llep final : public Placer {
 public:
  Llep(const PlacementContext& c, const LlepOptions& o)
      : c_(c), o_(o), owned_(contiguous_homes(c.experts, c.gpus, c.ep)) {}

  LayerDecision decide(const LayerRoutingNow& now) override {
    std::vector<llep::Plan> plans;
    SlotTable table;
    std::vector<ExpertTransfer> weights, gradients;
    for (int run = 0; run < c_.gpus / c_.ep; ++run) {
      plans.push_back(plan_of(rows_of(now.loads, run * c_.ep, c_.ep)));
      for (auto& slots : llep::table(plans.back())) table.push_back(std::move(slots));
      add_transfers(plans.back(), run, weights, gradients);
    }
    const Placement placement(c_.experts, table);
    LayerDecision decision(assign_by_run(placement, c_.ep, [&](int run, const Placement& slots) {
      const llep::Plan& plan = plans[static_cast<std::size_t>(run)];
      if (plan.transfers.empty()) return own_slots(slots);
      return llep::shares(plan, rows_of(now.loads, run * c_.ep, c_.ep));
    }));
    if (!weights.empty()) {
      decision.gather.push_back({"spill", traffic_of(weights, c_.gpus), {}, {}});
      if (c_.backward) {
        if (!o_.keeps) decision.regather = decision.gather;
        decision.reduce.push_back({"spill-grad", traffic_of(gradients, c_.gpus), {}, {}});
      }
    }
    decision.after_gate = decision.planned = true;
    decision.planning = o_.planning;
    decision.planning_blocks = true;
    decision.memory = memory_of(placement);
    decision.gradient_homes = owned_;
    return decision;
  }
  bool reacts() const override { return true; }

 private:
  llep::Plan plan_of(const LoadMatrix& loads) const {
    const auto counts = loads.per_expert();
    return llep::applies(counts, c_.ep, o_.lambda) ? llep::plan(counts, c_.ep, o_.parameters)
                                                   : native(counts, c_.ep);
  }

  static std::vector<std::vector<Shares>> own_slots(const Placement& slots) {
    std::vector<Shares> row;
    for (int e = 0; e < slots.experts(); ++e) {
      row.push_back({{slots.slots_of(ExpertId(e)).front(), 1}});
    }
    return {static_cast<std::size_t>(slots.gpus()), row};
  }

  /// One per expert and GPU, though upstream may cut two chunks for the same.
  void add_transfers(const llep::Plan& plan, int run, std::vector<ExpertTransfer>& weights,
                     std::vector<ExpertTransfer>& gradients) const {
    const std::int64_t parameters = c_.model.expert_parameters();
    const std::set<WeightMove> moves(plan.transfers.begin(), plan.transfers.end());
    for (const WeightMove& move : moves) {
      const GpuId owner(run * c_.ep + move.from.value), gpu(run * c_.ep + move.to.value);
      weights.push_back({move.expert, owner, gpu, Bytes(parameters * size_of(c_.model.weights))});
      gradients.push_back({move.expert, gpu, owner, Bytes(parameters * c_.state.gradient)});
    }
  }

  /// Whole experts where they are owned; received ones while the layer computes, or their weights
  /// until the backward pass.
  std::vector<ExpertMemory> memory_of(const Placement& placement) const {
    std::vector<ExpertMemory> memory;
    const int owned = c_.experts / c_.ep;
    const std::int64_t parameters = c_.model.expert_parameters();
    const auto bytes = [&](int experts, int each) { return Bytes(experts * parameters * each); };
    const int weight = size_of(c_.model.weights);
    for (int g = 0; g < placement.gpus(); ++g) {
      const int received = placement.slots_on(GpuId(g)) - owned;
      ExpertMemory gpu;
      gpu.weights = bytes(owned, weight);
      (o_.keeps && c_.backward ? gpu.weights : gpu.gathered) += bytes(received, weight);
      if (c_.backward) {
        gpu.gradients = bytes(owned, c_.state.gradient);
        gpu.optimizer = bytes(owned, c_.state.optimizer);
        gpu.gathered += bytes(received, c_.state.gradient);
      }
      memory.push_back(gpu);
    }
    return memory;
  }

  PlacementContext c_;
  LlepOptions o_;
  SlotTable owned_;
};

}  // namespace

// lambda: experts spill when the largest over the mean load of the run's ranks reaches it (default
// 0: always); alpha: capacity of a rank over the mean load (1.1); least_chunk: token-slots worth a
// transfer (1024). Defaults are published.
// received: regather (default: weights are dropped after the forward pass and sent again) or keep
// (unstated).
// planning_time: of every layer, its dispatch waits (0 us, unstated; the all-gather of counts is
// not simulated).
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
      return native(none, context.ep);
    });
    return std::make_unique<Llep>(context, o);
  };
}

}  // namespace moesim
