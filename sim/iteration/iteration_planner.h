// SPDX-License-Identifier: Apache-2.0
// From a model, a grid, a pipeline and recorded routing to the plan of a whole training iteration.
#pragma once

#include <memory>
#include <vector>

#include "sim/iteration/iteration_memory.h"
#include "sim/iteration/iteration_options.h"
#include "sim/iteration/microbatches.h"
#include "sim/iteration/stage_layers.h"
#include "sim/mechanism/routing.h"

namespace moesim {

struct IterationPlan {
  Plan plan;
  RoutingChange change;
  std::int64_t tokens = 0;  // of all replicas
  IterationMemory memory;
};

/// Plans iterations one after the other. Every pipeline stage is a cluster of its own for the
/// policy; every microbatch is a step of its planners. Topology, model and trace must outlive it.
class IterationPlanner {
 public:
  /// Throws Error naming the rule that the options break, and Unsuitable as LayerPlanner.
  IterationPlanner(const SystemSpec& system, const Topology& topology, const MoeModel& model,
                   const RoutingTrace& trace, IterationOptions options);
  ~IterationPlanner();

  /// A plan that obeys the rules of check_plan.
  IterationPlan plan(int iteration);
  /// Shows an iteration to the planners without a plan of it.
  void warm_up(int iteration);
  /// Whether the placement decides from loads at all, and whether it has so far.
  bool plans_from_loads() const { return !layer_planner().first_plans().empty(); }
  bool replanned() const { return replanned_; }
  /// That of the first stage: its mechanisms are those of all.
  const LayerPlanner& layer_planner() const { return layers_.front()->planner(); }

  const IterationShape& shape() const { return shape_; }
  const Microbatches& microbatches() const { return microbatches_; }
  const IterationOptions& options() const { return options_; }
  /// What lies at a place of the pipeline.
  std::vector<StagePart> parts(int stage, int chunk) const;
  /// Of a stage's layers what the last plan has decided.
  StageLayers& layers_of(int stage) const { return *layers_[static_cast<std::size_t>(stage)]; }

 private:
  class Iteration;
  void decide(int iteration, RoutingChange& change);

  std::string name_;
  Transports transports_;
  const Topology& topology_;
  const MoeModel& model_;
  IterationOptions options_;
  bool whole_;             // the model says what is around its experts
  MoeModel expert_model_;  // with experts as wide as the parts of them that a GPU holds
  IterationShape shape_;
  Microbatches microbatches_;
  bool replanned_ = false;
  std::vector<std::unique_ptr<Topology>> clusters_;   // [stage]
  CountedLayers counted_;                             // by the stages that have decided
  std::vector<std::unique_ptr<StageLayers>> layers_;  // [stage]
};

}  // namespace moesim
