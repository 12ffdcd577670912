// SPDX-License-Identifier: Apache-2.0
#include "sim/scenario/policy_planner.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/planner/iteration/alike_ranks.h"
#include "sim/planner/iteration/layers_memory.h"
#include "sim/planner/iteration/least_state.h"
#include "sim/planner/iteration/serving_batches.h"

namespace moesim {
namespace {

TraceInfo info_of(const MoeModel& model) {
  TraceInfo info;
  info.experts = model.experts;
  info.top_k = model.top_k;
  info.layers = model.moe_layers;
  return info;
}

/// Every new token of a pass once.
RoutingTrace balanced_pass(const ServingSpec& serving, const IterationShape& shape,
                           const MoeModel& model) {
  return balanced_trace(info_of(model), new_tokens(serving, shape.grid.size(ParallelAxis::dp)),
                        {model.gate_groups, model.gate_kept_groups});
}

/// As many tokens as the microbatches that differ take; none if recorded ones are replayed. Ranks
/// that choose alike do so in every microbatch.
RoutingTrace balanced_tokens(const Scenario& scenario, const Inputs& inputs,
                             const ClusterInput& cluster, RoutingSource routing) {
  const MoeModel& model = inputs.model;
  if (routing != RoutingSource::balanced) return RoutingTrace(inputs.trace.info(), {});
  const IterationSpec& spec = *scenario.iteration;
  const IterationShape shape = shape_of(spec, cluster.topology.gpu_count(), model);
  if (spec.serving) return balanced_pass(*spec.serving, shape, model);
  const GateGroups gate{model.gate_groups, model.gate_kept_groups};
  const std::int64_t microbatch =
      std::int64_t{spec.micro_batch} * spec.sequence * shape.grid.size(ParallelAxis::dp);
  if (const auto alike = alike_ranks(shape, spec, cluster.topology, model)) {
    return balanced_trace(info_of(model), microbatch, spec.sequence, gate, *alike);
  }
  // Microbatches of a dense model are alike, and random choices of many tokens differ little.
  const int enough = model.experts == 0 ? 1 : 4;
  return balanced_trace(info_of(model), std::min(enough, shape.microbatches) * microbatch,
                        spec.sequence, gate);
}

}  // namespace

Spec spec_of(const Scenario& scenario) {
  Spec spec{*scenario.iteration};
  spec.state = {scenario.gradient_bytes, scenario.optimizer_bytes};
  if (spec.serves()) {
    spec.state = {0, 0};
    spec.optimizer = spec.backward = false;
  }
  return spec;
}

AskedSteps asked_iterations(const Scenario& scenario) {
  const StepRange& asked = scenario.steps;
  if (asked.last < 0) return {scenario.warmup, 1};
  return {asked.first, asked.last - asked.first};
}

AskedSteps asked_steps(const Scenario& scenario, const ClusterInput& cluster) {
  if (scenario.iteration) return asked_iterations(scenario);
  return {cluster.first_step, static_cast<int>(cluster.batches.batches.size())};
}

namespace {

/// Without choices of experts there are only balanced ones.
PolicyPlanner::Options with_its_routing(PolicyPlanner::Options options, const Scenario& scenario) {
  if (scenario.iteration && !scenario.plays_choices()) options.routing = RoutingSource::balanced;
  return options;
}

}  // namespace

PolicyPlanner::PolicyPlanner(const Scenario& scenario, const Inputs& inputs,
                             const ClusterInput& cluster, const SystemSpec& system, Options options)
    : PolicyPlanner(with_its_routing(options, scenario), scenario, inputs, cluster, system) {}

PolicyPlanner::PolicyPlanner(Options options, const Scenario& scenario, const Inputs& inputs,
                             const ClusterInput& cluster, const SystemSpec& system)
    : scenario_(scenario),
      inputs_(inputs),
      cluster_(cluster),
      system_(system),
      asked_(asked_steps(scenario, cluster)),
      balanced_(balanced_tokens(scenario, inputs, cluster, options.routing)) {
  if (scenario.engine_run) {
    throw Error("the scenario has requests ('serving.requests'): it is a run of an engine",
                "moesim run and moesim compare run it; 'serving.batch' is one pass of it");
  }
  const auto make = [&](auto spec, const RoutingTrace& trace) {
    spec.explicit_rows = options.explicit_rows;
    spec.join_alike = options.join_alike;
    planner_ = std::make_unique<Planner>(system, cluster.topology, inputs.model, trace, spec);
  };
  if (!scenario.iteration) {
    PlannerOptions layers = inputs.planner_options(scenario, cluster);
    layers.counted = options.counted;
    make(std::move(layers), inputs.trace);
    return;
  }
  const bool balanced = options.routing == RoutingSource::balanced;
  Spec spec = spec_of(scenario);
  spec.settled = options.settled;
  spec.told = options.told;
  spec.told_by = options.told_by;
  spec.moved_from = options.moved_from;
  spec.first = asked_.first;
  spec.count = asked_.count;
  spec.warmed = std::min(asked_.first, scenario.warmup) > 0;
  spec.fewer_microbatches = options.fewer_microbatches && !spec.serves();
  if (balanced && !spec.serves() && balanced_.total_tokens() == tokens_of_microbatch()) {
    spec.spec.distinct_microbatches = 1;
  }
  if (balanced && spec.serves()) {  // whose tokens recorded ones are no longer matters
    for (auto& list : spec.spec.serving->batch.ranks) {
      for (SequenceStep& each : list) each.request = -1;
    }
  }
  make(std::move(spec), balanced ? balanced_ : inputs.trace);
  if (options.told || options.told_by != nullptr) return;
  for (int i = std::max(0, asked_.first - scenario.warmup); i < asked_.first; ++i) {
    planner_->warm_up(i);
  }
}

std::int64_t PolicyPlanner::tokens_of_microbatch() const {
  const IterationSpec& spec = *scenario_.iteration;
  const Grid grid(spec.parallel, cluster_.topology.gpu_count());
  return std::int64_t{spec.micro_batch} * spec.sequence * grid.size(ParallelAxis::dp);
}

int PolicyPlanner::model_layers() const {
  return static_cast<int>(std::max(inputs_.layers.size(), inputs_.model.moe_layers.size()));
}

MemoryPeaks PolicyPlanner::model_memory(const PlannedStep& step) const {
  return for_layers(step.memory.peaks, model_layers(), static_cast<int>(inputs_.layers.size()),
                    scenario_.backward);
}

void PolicyPlanner::require_memory(const PlannedStep& step, const GpuModels& gpus) const {
  if (scenario_.memory == MemoryCheck::ignore) return;
  const auto check = [&](const MemoryPeaks& peaks, const std::optional<std::string>& layers) {
    const std::string hint =
        layers ? "" : hint_of_memory(planner_->spec(), planner_->shape().grid, inputs_.model);
    check_memory(peaks, gpus, system_.name, layers, hint);
  };
  if (!planner_->spec().only_layers) return check(step.memory.peaks, {});
  if (scenario_.memory == MemoryCheck::replayed) return check(step.memory.peaks, "");
  check(model_memory(step), fmt::format("all {} MoE layers of the model", model_layers()));
}

}  // namespace moesim
