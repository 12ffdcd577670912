// SPDX-License-Identifier: Apache-2.0
#include "sim/scenario/policy_steps.h"

#include <algorithm>

#include "sim/mechanism/unsuitable.h"
#include "sim/scenario/policy_iterations.h"
#include "sim/scenario/proof.h"
#include "sim/scenario/scenario_text.h"

namespace moesim {
namespace {

PlannerOptions with_rows(PlannerOptions options) {
  options.explicit_rows = true;
  return options;
}

}  // namespace

PolicySteps::PolicySteps(const Scenario& scenario, const Inputs& inputs,
                         const ClusterInput& cluster, const SystemSpec& system)
    : cluster_(cluster),
      planner_(system, cluster.topology, inputs.model, inputs.trace,
               with_rows(inputs.planner_options(scenario, cluster))) {}

ExecutableStep PolicySteps::next() {
  const Batch& batch = cluster_.batches.batches[next_];
  ExecutableStep step;
  step.number = cluster_.first_step + static_cast<int>(next_++);
  StepPlan planned = planner_.plan(batch, step.number);
  for (const LayerRouting& layer : routing_of(planned, batch)) {
    step.layers.push_back(served(layer));
  }
  step.planning = planned.planning();
  for (const GpuMemory& gpu : planned.memory) {
    step.peak_memory = std::max(step.peak_memory, gpu.total());
  }
  step.dropped_choices = planned.change.dropped_choices;
  step.replaced_choices = planned.change.replaced_choices;
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
  origin.hidden = inputs.model.hidden;
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
      PolicySteps steps(view.scenario, view.inputs, view.inputs.clusters[place], view.system);
      while (!steps.done()) policy.steps.push_back(steps.next());
    } catch (const Unsuitable& e) {
      policy.steps.clear();
      policy.unsuitable = e.what();
    }
  }
  return policies;
}

}  // namespace moesim
