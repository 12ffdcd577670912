// SPDX-License-Identifier: Apache-2.0
#include "sim/policy/step_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/mechanism/unsuitable.h"

namespace moesim {
namespace {

/// Rather more ops than a plan will have. Room that is not used costs nothing, a list that grows is
/// copied, and large plans take hundreds of megabytes.
std::size_t about_ops(const std::vector<LayerWork>& layers, bool backward) {
  constexpr std::size_t kernels = 12;  // of a GPU beside those of phases
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

StepPlanner::StepPlanner(const SystemSpec& system, const Topology& topology, const MoeModel& model,
                         const RoutingTrace& trace, PlannerOptions options)
    : name_(system.name),
      transports_(system.transports),
      gpus_(topology.gpu_count()),
      layers_(system, topology, model, trace, std::move(options)) {}

Seconds StepPlan::planning() const {
  Seconds sum;
  for (const LayerWork& layer : layers) sum += layer.decision.planning;
  return sum;
}

bool StepPlan::replanned() const {
  return std::any_of(layers.begin(), layers.end(),
                     [](const LayerWork& layer) { return layer.decision.planned; });
}

StepPlan StepPlanner::plan(const Batch& batch, int step) {
  StepPlan result;
  result.plan.name = fmt::format("{}-step{}", name_, step);
  result.plan.gpus = gpus_;
  result.plan.transports = transports_;
  for (std::size_t layer = 0; layer < static_cast<std::size_t>(layers_.layers()); ++layer) {
    LayerWork& work = result.layers.emplace_back(layers_.work(batch, step, layer, result.change));
    if (!layers_.options().explicit_rows) continue;
    RoutingChange counted;
    result.chosen.push_back(layers_.add_rows(work, batch, layer, counted));
  }
  add_ops(result);
  return result;
}

StepPlan StepPlanner::layer_with_rows(const StepPlan& planned, const Batch& batch,
                                      std::size_t layer) {
  StepPlan result;
  result.plan.name = planned.plan.name;
  result.plan.gpus = planned.plan.gpus;
  result.plan.transports = transports_;
  LayerWork& work = result.layers.emplace_back(planned.layers[layer]);
  result.chosen.push_back(layers_.add_rows(work, batch, layer, result.change));
  add_ops(result);
  return result;
}

void StepPlanner::add_ops(StepPlan& result) const {
  const PlannerOptions& options = layers_.options();
  result.plan.ops.reserve(about_ops(result.layers, options.backward));
  StepOps step(result.plan, layers_.model(), result.layers);
  unless_unsuitable([&] { issue_step(layers_.schedule(), step.ops, options.backward); });
  result.memory = memory_of(result.layers, layers_.model(), options.state, options.backward);
  check_plan(result.plan);
}

}  // namespace moesim
