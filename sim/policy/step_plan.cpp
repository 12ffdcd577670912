// SPDX-License-Identifier: Apache-2.0
#include "sim/policy/step_plan.h"

#include <fmt/format.h>

#include <algorithm>

namespace moesim {
namespace {

std::vector<std::int64_t> tokens_per_rank(const Batch& batch) {
  std::vector<std::int64_t> tokens;
  for (const auto& runs : batch.ranks) {
    tokens.push_back(0);
    for (const TokenRun& run : runs) tokens.back() += run.count;
  }
  return tokens;
}

}  // namespace

Communicators runs_of(int gpus, int size) {
  Communicators runs;
  for (int g = 0; g < gpus; ++g) {
    if (g % size == 0) runs.emplace_back();
    runs.back().emplace_back(g);
  }
  return runs;
}

StepPlanner::StepPlanner(const SystemSpec& system, const Topology& topology, const MoeModel& model,
                         const RoutingTrace& trace, PlannerOptions options)
    : name_(system.name),
      topology_(topology),
      model_(model),
      trace_(trace),
      options_(std::move(options)),
      routing_(system.routing.make({})),
      placer_(system.placement.make({trace.info().experts, topology.gpu_count(), options_.ep})),
      dispatch_(system.dispatch.make({topology, model, options_.ep})),
      schedule_(system.schedule.make({})) {}

LayerWork StepPlanner::layer_work(const Batch& batch, int step, int layer, RoutingChange& change) {
  const IdRows ids = routing_->apply(trace_.step(batch.step), layer, change);
  const int number = trace_.info().layers[static_cast<std::size_t>(layer)];
  LayerWork work{number, nullptr, placer_->place(step, layer), {}, {}, tokens_per_rank(batch)};
  const LayerTokens tokens{batch, ids, work.assignment};
  work.dispatch = &dispatch_->choose(tokens);
  work.counts = work.dispatch->count(tokens);
  if (options_.explicit_rows) work.rows = work.dispatch->rows(tokens);
  return work;
}

StepPlan StepPlanner::plan(const Batch& batch, int step) {
  StepPlan result;
  result.plan.name = fmt::format("{}-step{}", name_, step);
  result.plan.gpus = topology_.gpu_count();
  for (int layer : options_.layers) {
    result.layers.push_back(layer_work(batch, step, layer, result.change));
  }
  LayerOps ops(result.plan, model_, result.layers);
  schedule_->issue(ops, static_cast<int>(options_.layers.size()), options_.backward);
  check_plan(result.plan);
  return result;
}

int default_ep(int gpus, int experts) {
  int ep = std::min(gpus, experts);
  while (gpus % ep != 0) --ep;
  return ep;
}

}  // namespace moesim
