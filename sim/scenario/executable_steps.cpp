// SPDX-License-Identifier: Apache-2.0
#include "sim/scenario/executable_steps.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/unsuitable.h"
#include "sim/collective/collective.h"
#include "sim/scenario/can_execute.h"
#include "sim/scenario/proof.h"
#include "sim/scenario/scenario_text.h"

namespace moesim {
namespace {

/// The experts of a stage on the GPUs of the plan; the others have no slots.
Placement on_plan(const Placement& own, const std::vector<GpuId>& stage, int gpus) {
  SlotTable table(static_cast<std::size_t>(gpus));
  const SlotTable of_stage = own.table();
  for (std::size_t g = 0; g < of_stage.size(); ++g) table[stage[g].index()] = of_stage[g];
  return {own.experts(), table};
}

void check_iterations(const Scenario& scenario, const Inputs& inputs) {
  if (scenario.iteration) check_can_execute(scenario, inputs.model);
}

}  // namespace

ExecutableSteps::ExecutableSteps(const Scenario& scenario, const Inputs& inputs,
                                 const ClusterInput& cluster, const SystemSpec& system)
    : cluster_(cluster),
      model_(inputs.model),
      steps_((check_iterations(scenario, inputs), scenario), inputs, cluster, system,
             {.explicit_rows = true}) {
  const Grid& grid = steps_.planner().shape().grid;
  if (grid.stage_by(ParallelAxis::ep, 0) != grid.stage(0)) {
    throw Error(fmt::format("hardware cannot execute the order {} yet: an EP group is not "
                            "consecutive GPUs of its stage",
                            scenario.iteration->parallel.order),
                "let ep come before dp");
  }
  const int tp = grid.size(ParallelAxis::tp);
  for (int i = 0; i < static_cast<int>(grid.stage(0).size()); ++i) {
    const GridPlace place = grid.place(grid.stage(0)[static_cast<std::size_t>(i)]);
    if (place.tp == i % tp && place.dp == i / tp) continue;
    throw Error(fmt::format("hardware cannot execute the order {} yet: a tensor group is not "
                            "consecutive GPUs of its stage",
                            scenario.iteration->parallel.order),
                "let tp come first");
  }
}

HeldIteration ExecutableSteps::held() const {
  const Planner& planner = steps_.planner();
  const IterationShape& shape = planner.shape();
  const IterationSpec& spec = planner.spec().spec;
  const int tp = shape.grid.size(ParallelAxis::tp);
  HeldIteration held{model_,
                     {},
                     tp,
                     shape.microbatches,
                     spec.micro_batch,
                     spec.sequence,
                     spec.zero,
                     spec.zero > 0 && spec.overlap.parameters};
  for (int s = 0; s < shape.grid.stages(); ++s) {
    const std::vector<GpuId>& gpus = shape.grid.stage(s);
    HeldStage& stage = held.stages.emplace_back(HeldStage{Group(gpus), {}, {}});
    for (int chunk = 0; chunk < shape.pipeline.chunks(); ++chunk) {
      stage.chunks.push_back({shape.pipeline.position_of({s, chunk}), planner.parts(s, chunk)});
    }
    // As the planner, which looks at the nodes of the first members.
    std::vector<int> node_of;
    for (std::size_t g = 0; g < gpus.size(); g += static_cast<std::size_t>(tp)) {
      node_of.push_back(cluster_.topology.host_of(gpus[g]));
    }
    stage.rings.assign(static_cast<std::size_t>(tp), rings_through(by_node(node_of)));
    for (std::size_t part = 0; part < stage.rings.size(); ++part) {
      for (auto& ring : stage.rings[part]) {
        for (GpuId& member : ring) member = gpus[member.index() * stage.rings.size() + part];
      }
    }
  }
  return held;
}

void ExecutableSteps::add_layer(const PlannedLayer& layer, int microbatch,
                                ExecutableStep& step) const {
  const std::vector<GpuId>& gpus = steps_.planner().shape().grid.stage(layer.stage);
  ServedLayer& to = step.layers.emplace_back(served(routing_of(layer)));
  to.placement = on_plan(to.placement, gpus, cluster_.topology.gpu_count());
  for (GpuId& source : to.source) source = gpus[source.index()];
  // Slots keep their numbers only if the GPUs before have none, as here.
  to.microbatch = microbatch;
}

ExecutableStep ExecutableSteps::next() {
  ExecutableStep step;
  step.number = steps_.number(next_);
  PlannedStep planned = steps_.plan(next_++);
  const Planner& planner = steps_.planner();
  const bool iteration = !planner.spec().only_layers;
  check_can_execute(planned.plan);
  for (const PlannedLayer& layer : planned.layers) check_can_execute(layer.decision);
  if (iteration) check_can_execute(planned, model_);
  step.planning = planned.planning();
  step.dropped_choices = planned.change.dropped_choices;
  step.replaced_choices = planned.change.replaced_choices;
  for (const MemoryPeak& peak : planned.memory.peaks) {
    step.peak_memory = std::max(step.peak_memory, peak.use.total());
  }
  const IterationShape& shape = planner.shape();
  for (int s = 0; s < shape.grid.stages(); ++s) {
    for (int m = 0; m < shape.microbatches; ++m) {
      for (const PlannedLayer& layer : planned.layers) {
        const int replayed = m % planner.microbatches().distinct;
        if (layer.stage == s && layer.microbatch == replayed) add_layer(layer, m, step);
      }
    }
  }
  if (iteration) {
    check_can_execute(step.layers);
    step.iteration = held();
  }
  step.plan = std::move(planned.plan);
  return step;
}

StepsOrigin origin_of(const Scenario& scenario, const Inputs& inputs, const ClusterInput& cluster,
                      const std::string& version) {
  StepsOrigin origin;
  origin.moesim = version;
  origin.scenario = to_text(scenario);
  origin.trace = inputs.trace_file();
  origin.model = inputs.model_file;
  origin.topology = cluster.file;
  origin.model_name = inputs.model.name;
  origin.hidden = inputs.model.routed_width();
  origin.expert_ffn = inputs.model.expert_ffn;
  origin.gated = inputs.model.expert_matrices == 3;
  origin.layers = static_cast<int>(inputs.layers.size());
  origin.steps = static_cast<int>(cluster.batches.batches.size());
  origin.tokens_per_rank = cluster.batches.tokens_per_rank;
  origin.backward = scenario.backward;
  if (scenario.iteration) {
    const IterationSpec& spec = *scenario.iteration;
    origin.iteration = true;
    origin.layers = inputs.model.layers;
    origin.steps = asked_iterations(scenario).count;
    origin.tokens_per_rank = std::int64_t{spec.global_batch} * spec.sequence /
                             (cluster.topology.gpu_count() / spec.parallel.pp);
  }
  return origin;
}

std::vector<SavedPolicy> plan_all(const Scenario& scenario, const Inputs& inputs,
                                  const ClusterInput& cluster) {
  std::vector<SavedPolicy> policies;
  const auto place = static_cast<std::size_t>(&cluster - inputs.clusters.data());
  for (std::size_t p = 0; p < inputs.systems.size(); ++p) {
    const PolicyView view = view_of(scenario, inputs, p);
    SavedPolicy& policy = policies.emplace_back();
    policy.name = view.system.name;
    try {
      ExecutableSteps steps(view.scenario, view.inputs, view.inputs.clusters[place], view.system);
      while (!steps.done()) policy.steps.push_back(steps.next());
    } catch (const Unsuitable& e) {
      policy.steps.clear();
      policy.unsuitable = e.what();
    }
  }
  return policies;
}

}  // namespace moesim
