// SPDX-License-Identifier: Apache-2.0
#include "sim/run/metrics_of_no_step.h"

#include <algorithm>

#include "sim/model/model_flops.h"
#include "sim/run/serving_views.h"

namespace moesim {
namespace {

/// Of one token of an iteration; 0: unknown.
ModelFlops flop_per_token(const PolicyRun& run) {
  if (!run.inputs.model.missing_of_whole().empty() || run.scenario.serves()) return {};
  FlopCount count;
  count.sequence = run.scenario.iteration->sequence;
  return training_flops(run.inputs.model, count);
}

double mean_peak(const ClusterInput& cluster, DataType type) {
  double sum = 0;
  for (const auto& gpu : cluster.gpus) {
    const auto peak = gpu->peak.find(type);
    if (peak == gpu->peak.end()) return 0;
    sum += peak->second.value;
  }
  return sum / static_cast<double>(cluster.gpus.size());
}

Bytes smallest_gpu(const ClusterInput& cluster) {
  Bytes least = cluster.gpus.front()->memory;
  for (const auto& gpu : cluster.gpus) least = std::min(least, gpu->memory);
  return least;
}

}  // namespace

RunMetrics metrics_of_no_step(const PolicyRun& run, const Planner& planner) {
  RunMetrics metrics;
  metrics.gpu_memory = smallest_gpu(run.cluster);
  metrics.replans = planner.layer_planner().replans_in_warmup();
  if (planner.spec().only_layers) return metrics;
  metrics.iteration.emplace();
  const ModelFlops flops = flop_per_token(run);
  metrics.iteration->flop_per_token = flops.total();
  metrics.iteration->routed_flop = flops.routed;
  metrics.iteration->peak_flops = mean_peak(
      run.cluster, narrowest_type(planner.spec().gemm_types(run.inputs.model), run.inputs.model));
  if (planner.spec().serves()) {
    metrics.iteration->serving = serving_figures(planner, run.inputs.model);
  }
  return metrics;
}

}  // namespace moesim
