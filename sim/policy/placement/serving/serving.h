// SPDX-License-Identifier: Apache-2.0
// What balancers that replicate experts share: when slots change, what that moves, and what the
// copies of an expert cost. Hosts are their nodes; every run of `ep` ranks is balanced by itself.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/balance/serving/eplb.h"
#include "sim/balance/serving/replica_choice.h"
#include "sim/policy/placement/lagged.h"
#include "sim/policy/unsuitable.h"

namespace moesim {

/// The hosts of one run of `ep` ranks, and the GPUs of the run on each.
struct RunShape {
  int nodes = 1;
  int gpus_per_node = 1;
};

/// Throws Unsuitable naming `who` unless hosts are runs of equally many ranks that divide `ep`, or
/// that `ep` divides.
RunShape run_shape(const PlacementContext& context, const std::string& who);

/// `given` slots, or when 0 one more than the experts of a rank rounded up; throws Unsuitable
/// naming `who` when the experts do not fit.
int slots_per_gpu(const PlacementContext& context, int given, const std::string& who);

/// What EPLB balances in one run: slots as slots_per_gpu says, experts in `groups`, or when 0 in
/// those of the gate. Throws Unsuitable naming `who` when EPLB has no layout for it.
eplb::Shape eplb_shape(const PlacementContext& context, int slots, int groups,
                       const std::string& who);

/// Slot p of a run, counted over its ranks, holds expert p modulo experts.
SlotTable slots_in_turn(int experts, int ranks, int slots);

/// Defaults of systems that serve: slots hold weights alone.
LaggedOptions weights_only();

/// Shares [rank][expert] of one run for its own slots, numbered from 0.
using RunShares = std::function<std::vector<std::vector<Shares>>(int run, const Placement& slots)>;

/// The assignment in which no rank uses slots of another run.
Assignment assign_by_run(const Placement& placement, int ep, const RunShares& shares);

/// The shares of one rank for one expert, from its choices of it in token order (dropped ones left
/// out) and the slots of the expert in the run, numbered from 0, ascending.
using ChoiceShares =
    std::function<Shares(GpuId rank, ExpertId expert, std::span<const Choice> choices,
                         std::span<const SlotId> replicas)>;

/// The same for rules that pick a replica for every choice.
Assignment assign_by_choice(const Placement& placement, int ep, const LayerRoutingNow& now,
                            const ChoiceShares& shares);

/// Memory of the slots and, in training, what keeps the copies of an expert alike. `whole`: every
/// slot holds gradients and optimizer state, gradients of the copies in a run are summed at its
/// first holder and sent back. Otherwise the rank that `contiguous` gives an expert keeps its
/// optimizer state: it sends weights to every other holder before the experts compute, which makes
/// migration needless, and gets their gradients. No serving system says how it would train: ours.
void hold_slots(LayerDecision& decision, const PlacementContext& context, bool whole);

/// Keeps one slot table per layer; what is decided for step s depends on steps before s alone.
class Serving : public Placer {
 public:
  /// `initial`: the slots of one run. Of the options, interval, first and window are left to
  /// replan.
  Serving(const PlacementContext& context, const LaggedOptions& options, const SlotTable& initial);
  LayerDecision decide(const LayerRoutingNow& now) final;
  std::vector<FirstPlan> first_plans() const override { return {{.after = options_.first}}; }

 protected:
  /// The slots of one run from now on, `steps` steps (at least 1) of the layer having been seen;
  /// nothing: it is not the time to decide.
  virtual std::optional<SlotTable> replan(int layer, int run, int steps,
                                          const SlotTable& current) = 0;
  /// Who uses which replica in this step.
  virtual Assignment assign(const Placement& placement, const LayerRoutingNow& now) = 0;
  /// Called after every step with the loads of a run's ranks [ep x experts].
  virtual void observe(int layer, int run, const LoadMatrix& loads) = 0;
  /// The same once per step, for planners that look at more than loads.
  virtual void observe_routing(const LayerRoutingNow&) {}
  /// What is moved when slots change; by default weights, and the state that goes with them, from
  /// the nearest holders.
  virtual void move(LayerDecision& decision, const SlotTable& before, const SlotTable& after) const;
  /// The last word on a decision.
  virtual void finish(LayerDecision&) const {}

  const PlacementContext& context() const { return context_; }
  const LaggedOptions& options() const { return options_; }
  int runs() const { return context_.gpus / context_.ep; }
  /// Index of what is kept per layer and run, and how many there are.
  std::size_t at(int layer, int run) const {
    return static_cast<std::size_t>(layer * runs() + run);
  }
  std::size_t cells() const { return static_cast<std::size_t>(context_.layers * runs()); }
  Bytes slot_bytes() const;  // that migration carries

 private:
  struct Layer {
    SlotTable slots;
    int steps = 0;  // seen so far
  };
  PlacementContext context_;
  LaggedOptions options_;
  int gpus_per_host_;
  std::vector<Layer> layers_;
};

}  // namespace moesim
