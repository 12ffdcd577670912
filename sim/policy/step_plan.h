// SPDX-License-Identifier: Apache-2.0
// From one batch of a trace to the plan of one simulated step.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "sim/policy/layer_ops.h"
#include "sim/policy/memory.h"
#include "sim/policy/placer.h"
#include "sim/policy/routing.h"
#include "sim/policy/schedule.h"
#include "sim/policy/system.h"
#include "sim/topology/topology.h"

namespace moesim {

struct PlannerOptions {
  int ep = 0;               // expert-parallel degree
  std::vector<int> layers;  // indices into TraceInfo::layers, ascending
  bool backward = true;
  bool explicit_rows = false;  // token lists for real execution and check_delivery
  bool attention = true;       // the model's attention as compute of every layer, where it is known
  TrainingState state = {};
  int accumulate = 1;  // steps that share a sum of expert gradients over the EP groups; 0: none
  std::span<const Batch> batches = {};  // of all steps; only oracles look at them
  int first_step = 0;                   // the number of the first of these
  std::span<const Batch> warmup = {};   // of the steps just before, which planners see first
};

/// What the tokens of one layer chose after the routing mechanism: [token][k], below 0: dropped.
using ChosenExperts = std::vector<std::vector<ExpertId>>;

struct StepPlan {
  Plan plan;
  std::vector<LayerWork> layers;
  RoutingChange change;
  std::vector<ChosenExperts> chosen;  // [layer], only with explicit rows
  std::vector<GpuMemory> memory;      // [gpu]
  Seconds planning() const;           // of the host, over all layers
  bool replanned() const;             // slots of any layer, from loads
};

/// Turns batches into plans with the mechanisms of one system; stateful mechanisms see those of the
/// warm-up first, then the batches in the order of the calls. Topology, model and trace must
/// outlive it. What a mechanism refuses is Unsuitable: it is this case alone that cannot be.
class StepPlanner {
 public:
  StepPlanner(const SystemSpec& system, const Topology& topology, const MoeModel& model,
              const RoutingTrace& trace, PlannerOptions options);
  /// A plan that obeys the rules of check_plan.
  StepPlan plan(const Batch& batch, int step);
  /// One layer of a step that was planned from this batch, by itself and with explicit rows: those
  /// of all layers at once may not fit into memory. `layer` is an index into StepPlan::layers.
  StepPlan layer_with_rows(const StepPlan& planned, const Batch& batch, std::size_t layer);
  /// When the placement first decides from loads, steps of the warm-up included.
  std::vector<FirstPlan> first_plans() const { return placer_->first_plans(); }
  /// Steps of the warm-up in which it did.
  int replans_in_warmup() const { return replans_in_warmup_; }

 private:
  LoadMatrix recorded_loads(int step, int layer) const;
  void warm_up();
  IdRows routed(const Batch& batch, std::size_t layer, RoutingChange& change);
  LayerDecision decide(const Batch& batch, int step, std::size_t layer, IdRows ids);
  LayerWork layer_work(const Batch& batch, int step, std::size_t layer, StepPlan& result);
  void add_rows(LayerWork& work, const LayerTokens& tokens, StepPlan& result) const;
  void add_ops(StepPlan& result) const;
  bool sums_gradients(int step) const {
    return options_.backward && options_.accumulate > 0 && (step + 1) % options_.accumulate == 0;
  }

  std::string name_;
  const Topology& topology_;
  const MoeModel& model_;
  const RoutingTrace& trace_;
  PlannerOptions options_;
  PlacementContext placing_;
  int replans_in_warmup_ = 0;
  std::unique_ptr<Routing> routing_;
  std::unique_ptr<Placer> placer_;
  std::unique_ptr<Dispatch> dispatch_;
  std::unique_ptr<Schedule> schedule_;
};

/// Choices of every source rank for every expert.
LoadMatrix count_loads(const Batch& batch, IdRows ids, int experts);

/// The largest expert-parallel degree that fits: a divisor of gpus, at most experts.
int default_ep(int gpus, int experts);

}  // namespace moesim
