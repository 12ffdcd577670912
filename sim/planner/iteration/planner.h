// SPDX-License-Identifier: Apache-2.0
// From a spec, a model and recorded routing to the plans of its steps.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "sim/mechanism/routing.h"
#include "sim/planner/iteration/microbatches.h"
#include "sim/planner/iteration/planned_step.h"
#include "sim/planner/iteration/spec.h"
#include "sim/planner/iteration/stage_layers.h"

namespace moesim {

/// Plans steps one after the other: whole training iterations, or MoE layers by themselves. Every
/// pipeline stage is a cluster of its own for the policy; every microbatch is a step of its
/// mechanisms. Topology, model and trace must outlive it.
class Planner {
 public:
  /// Plans training iterations. Throws Error naming the rule that the spec breaks, and Unsuitable
  /// as LayerPlanner.
  Planner(const SystemSpec& system, const Topology& topology, const MoeModel& model,
          const RoutingTrace& trace, Spec spec);
  /// Plans MoE layers: those of the options, on all GPUs. Throws as LayerPlanner.
  Planner(const SystemSpec& system, const Topology& topology, const MoeModel& model,
          const RoutingTrace& trace, PlannerOptions layers);
  ~Planner();

  /// A plan that obeys the rules of check_plan. For MoE layers `number` is that of a step among the
  /// options' batches; of iterations the trace begins again where it ends.
  PlannedStep plan(int number);
  /// The same of tokens that the mechanisms take for those of a step of this number; for a spec of
  /// one microbatch. The batch must outlive the result.
  PlannedStep plan(const Batch& batch, int number);
  /// Plans the step anew, as it was decided, with all microbatches. Before the next one is planned.
  void plan_every_microbatch(PlannedStep& step);
  /// Shows an iteration to the mechanisms without a plan of it.
  void warm_up(int iteration);
  /// LayerPlanner::show, of a spec with one stage.
  void show(const Batch& batch, int number) { layers_.front()->planner().show(batch, number); }

  /// One layer of a step that was planned, by itself and with explicit rows: those of all layers at
  /// once may not fit into memory. `layer` is an index into PlannedStep::layers. The plan is one
  /// for the GPUs of the layer's stage, in the numbers of their own cluster; it has no attention if
  /// the model describes that as a block.
  PlannedStep layer_with_rows(const PlannedStep& planned, std::size_t layer);

  /// Whether the placement decides from loads at all, and whether it has so far.
  bool plans_from_loads() const { return !layer_planner().first_plans().empty(); }
  bool replanned() const { return last_replan_.has_value(); }
  /// The number of the newest step in which it did.
  std::optional<int> last_replan() const { return last_replan_; }
  /// That of the first stage: its mechanisms are those of all.
  const LayerPlanner& layer_planner() const { return layers_.front()->planner(); }
  /// Those of the placements of all stages, each once.
  std::vector<std::string> placement_notes() const;

  const IterationShape& shape() const { return shape_; }
  const Microbatches& microbatches() const { return microbatches_; }
  const Spec& spec() const { return spec_; }
  /// Whether a GPU has more than experts.
  bool attends(GpuId gpu) const {
    return !spec_.serves() || spec_.spec.serving->attends(shape_.grid.place(gpu).dp);
  }
  /// The parts of the model at a place of the pipeline.
  std::vector<StagePart> parts(int stage, int chunk) const;
  /// The GPUs of a stage, in the order in which its layers number them.
  std::vector<GpuId> gpus_of(int stage) const {
    return shape_.grid.stage_by(ParallelAxis::ep, stage);
  }
  /// Their own part of the topology; all of it if there is one stage.
  const Topology& cluster_of(int stage) const {
    return clusters_.empty() ? topology_ : *clusters_[static_cast<std::size_t>(stage)];
  }

 private:
  Planner(const SystemSpec& system, const Topology& topology, const MoeModel& model,
          const RoutingTrace& trace, Spec spec, IterationShape shape, PlannerOptions layers);
  PlannerOptions iteration_layers();
  std::vector<std::vector<int>> moe_layers_of(int stage) const;
  PlannedStep empty_step(std::string name) const;
  PlannedStep plan(std::span<const NumberedBatch> microbatches, int number);
  std::vector<NumberedBatch> microbatches_of(int iteration) const;
  void grow(PlannedStep& step);
  void decide(std::span<const NumberedBatch> microbatches, int number, PlannedStep& step);

  std::string name_;
  Transports transports_;
  const Topology& topology_;
  const MoeModel& model_;
  Spec spec_;
  bool whole_;             // the plan has what is around the experts
  MoeModel expert_model_;  // with experts as wide as the parts of them that a GPU holds
  IterationShape shape_;
  Microbatches microbatches_;
  std::optional<ShortenedPipeline> shortened_;
  std::optional<int> last_replan_;
  std::vector<std::unique_ptr<Topology>> clusters_;   // [stage]; none if there is only one
  CountedLayers counted_;                             // by the stages that have decided
  std::vector<std::unique_ptr<StageLayers>> layers_;  // [stage]
};

}  // namespace moesim
