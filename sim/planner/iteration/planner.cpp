// SPDX-License-Identifier: Apache-2.0
#include "sim/planner/iteration/planner.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/unsuitable.h"
#include "sim/plan/check.h"
#include "sim/planner/iteration/chunk_pass.h"
#include "sim/planner/iteration/growing_step.h"
#include "sim/planner/iteration/layers_memory.h"
#include "sim/planner/layer/expert_tensors.h"

namespace moesim {
namespace {

bool is_whole(const MoeModel& model, const Spec& spec) {
  return !spec.only_layers && model.missing_of_whole().empty();
}

Spec spec_of(const PlannerOptions& layers) {
  Spec spec;
  spec.spec.parallel.ep = layers.ep;
  spec.state = layers.state;
  spec.optimizer = false;
  spec.only_layers = true;
  spec.backward = layers.backward;
  return spec;
}

/// One stage, whose only microbatch passes these layers.
IterationShape shape_of(const PlannerOptions& layers, const Topology& topology,
                        const TraceInfo& trace) {
  unless_unsuitable([&] { return EpGroups(topology, layers.ep); });
  std::vector<StagePart> parts;
  for (const int number : layers.numbers_in(trace)) {
    parts.push_back({StagePartKind::layer, number});
  }
  return {Grid(ParallelSizes{.ep = layers.ep}, topology.gpu_count()), 1,
          Pipeline({.backward = layers.backward}), LayerLayout({std::move(parts)}, 1)};
}

/// Rather more ops than a plan will have. Room that is not used costs nothing, a list that grows is
/// copied, and large plans take hundreds of megabytes.
std::size_t about_ops(const std::vector<PlannedLayer>& layers, bool backward) {
  constexpr std::size_t kernels = 12;  // of a GPU, next to those of phases
  std::size_t ops = 0;
  for (const LayerWork& layer : layers) {
    for (const PhaseShape& phase : layer.dispatch->shape().phases) {
      ops += 2 * (phase.communicators.size() + 2 * layer.counts.gpus());
    }
    ops += kernels * layer.counts.gpus();
  }
  return backward ? 2 * ops : ops;
}

}  // namespace

Seconds PlannedStep::planning() const {
  Seconds sum;
  for (const LayerWork& layer : layers) sum += layer.decision.planning;
  return sum;
}

bool PlannedStep::replanned() const {
  return std::ranges::any_of(layers, [](const LayerWork& layer) { return layer.decision.planned; });
}

Planner::Planner(const SystemSpec& system, const Topology& topology, const MoeModel& model,
                 const RoutingTrace& trace, Spec spec)
    : Planner(system, topology, model, trace, spec,
              shape_of(spec.spec, topology.gpu_count(), model), {}) {}

Planner::Planner(const SystemSpec& system, const Topology& topology, const MoeModel& model,
                 const RoutingTrace& trace, PlannerOptions layers)
    : Planner(system, topology, model, trace, spec_of(layers),
              shape_of(layers, topology, trace.info()), layers) {}

Planner::Planner(const SystemSpec& system, const Topology& topology, const MoeModel& model,
                 const RoutingTrace& trace, Spec spec, IterationShape shape, PlannerOptions layers)
    : name_(system.name),
      transports_(system.transports),
      topology_(topology),
      model_(model),
      spec_(std::move(spec)),
      whole_(is_whole(model, spec_)),
      expert_model_(model),
      shape_(std::move(shape)),
      microbatches_(spec_.only_layers ? Microbatches()
                                      : make_microbatches(trace, shape_, spec_.spec)) {
  check_can_plan(spec_.spec);
  check_offload(spec_.spec, topology);
  expert_model_ = with_parts_of_experts(model, shape_.grid.size(ParallelAxis::etp));
  if (!spec_.only_layers) layers = iteration_layers();
  for (int stage = 0; stage < shape_.grid.stages(); ++stage) {
    if (shape_.grid.stages() > 1) {
      clusters_.push_back(std::make_unique<Topology>(topology.of_gpus(gpus_of(stage))));
    }
    layers.tensor_sharers = tensor_sharers(shape_.grid, stage);
    std::vector<std::vector<int>> chunks = moe_layers_of(stage);
    if (!spec_.only_layers) {
      layers.layers.clear();
      layers.numbers.clear();
      for (const auto& numbers : chunks) {
        for (const int number : numbers) {
          layers.numbers.push_back(number);
          layers.layers.push_back(recorded_layer(trace.info(), model, number));
        }
      }
    }
    layers_.push_back(
        std::make_unique<StageLayers>(system, clusters_.empty() ? topology : *clusters_.back(),
                                      expert_model_, trace, stage, std::move(chunks), layers));
  }
  // What does not depend on the microbatches before is planned alike for equal ones.
  const bool trains = !spec_.only_layers && !spec_.serves();
  if (trains && !plans_from_loads()) microbatches_.join_equal();
  if (spec_.fewer_microbatches) shortened_ = shortened(shape_.pipeline, microbatches_.distinct);
}

Planner::~Planner() = default;

/// But for what stages differ in.
PlannerOptions Planner::iteration_layers() {
  PlannerOptions layers;
  layers.ep = spec_.spec.parallel.ep;
  layers.state = spec_.state;
  layers.gemm_type = spec_.gemm_types(model_).of_experts();
  layers.accumulate = 0;  // the end of the iteration sums
  layers.explicit_rows = spec_.explicit_rows;
  layers.backward = spec_.backward;
  layers.first_step = spec_.first;
  layers.steps = spec_.count;
  layers.microbatches = [this](int iteration, int number) {
    std::vector<const Batch*> passing;
    for (const NumberedBatch& each : microbatches_of(iteration)) {
      if (number >= each.first && number < each.last) passing.push_back(each.batch);
    }
    return passing;
  };
  layers.counted = &counted_;
  layers.join_alike = spec_.join_alike;
  layers.settled = spec_.settled;
  layers.warmed = spec_.warmed;
  layers.told = spec_.told;
  const auto of_layers = [](const Planner* other) {
    return other == nullptr ? nullptr : &other->layers_.front()->planner();
  };
  layers.told_by = of_layers(spec_.told_by);
  layers.moved_from = of_layers(spec_.moved_from);
  if (spec_.serves()) {
    layers.attending = spec_.spec.serving->attention_ranks * spec_.spec.parallel.tp;
    layers.overlap_results = spec_.spec.serving->overlap == ServingOverlap::single_batch;
  }
  return layers;
}

/// [chunk]
std::vector<std::vector<int>> Planner::moe_layers_of(int stage) const {
  std::vector<std::vector<int>> chunks;
  for (int chunk = 0; chunk < shape_.pipeline.chunks(); ++chunk) {
    auto& numbers = chunks.emplace_back();
    for (const StagePart& part : parts(stage, chunk)) {
      const int number = layer_number(model_, part);
      const bool has_experts = spec_.only_layers || model_.is_moe_layer(number);
      if (number >= 0 && has_experts) numbers.push_back(number);
    }
  }
  return chunks;
}

std::vector<StagePart> Planner::parts(int stage, int chunk) const {
  return shape_.layers.parts(shape_.pipeline.position_of({stage, chunk}));
}

std::vector<NumberedBatch> Planner::microbatches_of(int iteration) const {
  std::vector<NumberedBatch> microbatches;
  for (int m = 0; m < microbatches_.distinct; ++m) {
    NumberedBatch& added =
        microbatches.emplace_back(NumberedBatch{&microbatches_.of(iteration, m), iteration});
    if (shape_.batch_parts.empty()) continue;
    const bool drafts = shape_.batch_parts[static_cast<std::size_t>(m)].drafts();
    (drafts ? added.first : added.last) = model_.layers;
  }
  return microbatches;
}

void Planner::decide(std::span<const NumberedBatch> microbatches, int number, PlannedStep& step) {
  std::size_t layers = 0;
  for (const auto& stage : layers_) layers += stage->layers();
  step.layers.reserve(layers * microbatches.size());  // stages keep references to them
  for (auto& stage : layers_) stage->plan(microbatches, step.layers, step.change);
  if (step.replanned()) last_replan_ = number;
  counted_.forget();
}

std::vector<std::string> Planner::placement_notes() const {
  std::vector<std::string> notes;
  for (const auto& stage : layers_) {
    for (std::string& note : stage->planner().placement_notes()) {
      if (std::ranges::find(notes, note) == notes.end()) notes.push_back(std::move(note));
    }
  }
  return notes;
}

void Planner::warm_up(int iteration) {
  if (!layer_planner().looks()) return;
  PlannedStep step;
  decide(microbatches_of(iteration), iteration, step);
}

PlannedStep Planner::plan(int number) {
  if (!spec_.only_layers) return plan(microbatches_of(number), number);
  const PlannerOptions& layers = layer_planner().options();
  return plan(layers.batches[static_cast<std::size_t>(number - layers.first_step)], number);
}

PlannedStep Planner::plan(const Batch& batch, int number) {
  const NumberedBatch only{&batch, number};
  return plan(std::span(&only, 1), number);
}

PlannedStep Planner::empty_step(std::string name) const {
  PlannedStep step;
  step.plan.name = std::move(name);
  step.plan.gpus = topology_.gpu_count();
  step.plan.transports = transports_;
  return step;
}

PlannedStep Planner::plan(std::span<const NumberedBatch> microbatches, int number) {
  const char* what = spec_.only_layers || spec_.serves() ? "step" : "iteration";
  PlannedStep step = empty_step(fmt::format("{}-{}{}", name_, what, number));
  decide(microbatches, number, step);
  step.tokens = spec_.only_layers ? microbatches.front().batch->tokens()
                                  : tokens_of(spec_.spec, topology_.gpu_count());
  if (shape_.pipeline.order().size() <= 2) {
    step.plan.ops.reserve(about_ops(step.layers, spec_.backward));
  }
  step.shortened = shortened_ ? &*shortened_ : nullptr;
  grow(step);
  return step;
}

void Planner::grow(PlannedStep& step) {
  unless_unsuitable([&] {
    const Pipeline& planned =
        step.shortened != nullptr ? step.shortened->pipeline : shape_.pipeline;
    const DecidedStep decided{shape_, planned, spec_, model_, topology_, whole_, layers_};
    GrowingStep grown(decided, step.plan);
    grown.add_all();
    if (!spec_.only_layers) step.memory = grown.memory();
  });
  if (spec_.only_layers) {
    step.memory.peaks = memory_of(step.layers, expert_model_, spec_.state, spec_.backward);
  }
  check_plan(step.plan);
}

void Planner::plan_every_microbatch(PlannedStep& step) {
  step.plan = empty_step(step.plan.name).plan;
  step.shortened = nullptr;
  grow(step);
}

PlannedStep Planner::layer_with_rows(const PlannedStep& planned, std::size_t layer) {
  PlannedStep step = empty_step(planned.plan.name);
  PlannedLayer& work = step.layers.emplace_back(planned.layers[layer]);
  StageLayers& layers = *layers_[static_cast<std::size_t>(work.stage)];
  step.plan.gpus = cluster_of(work.stage).gpu_count();
  step.tokens = work.batch->tokens();
  work.chosen = layers.planner().add_rows(work, *work.batch, work.index, step.change);
  LayerOps::Cell cell{work.microbatch, work.chunk};
  const GemmTypes types = spec_.gemm_types(model_);
  if (whole_) {
    work.attended = 0;  // a whole model's attention is a block of its own
    cell.gemm_types = types;
    cell.activation_fused = spec_.spec.fused_grouped_mlp;
  }
  const int etp = shape_.grid.size(ParallelAxis::etp);
  StashCopies stash{
      kept_expert_activations(model_, 1, etp, types.kept_of_experts(), spec_.spec.recompute)};
  if (spec_.spec.stash) cell.stash = &stash;
  StepOps alone(step.plan, expert_model_, step.layers, cell);
  unless_unsuitable([&] { issue_step(layers.planner().schedule(), alone.ops, spec_.backward); });
  step.memory.peaks = memory_of(step.layers, expert_model_, spec_.state, spec_.backward);
  check_plan(step.plan);
  return step;
}

}  // namespace moesim
