// SPDX-License-Identifier: Apache-2.0
#include "sim/compare/iteration_run.h"

#include <algorithm>
#include <cmath>

#include "sim/iteration/balanced_trace.h"

namespace moesim {
namespace {

/// As many tokens as the microbatches that differ take; none where recorded ones are replayed.
RoutingTrace balanced_tokens(const IterationRun& run) {
  const MoeModel& model = run.inputs.model;
  if (run.routing != RoutingSource::balanced) return RoutingTrace(run.inputs.trace.info(), {});
  const IterationSpec& spec = *run.scenario.iteration;
  const IterationShape shape = shape_of(spec, run.cluster.topology.gpu_count(), model);
  constexpr int enough = 4;  // microbatches: random choices of many tokens differ little
  const int microbatches = std::min(enough, shape.microbatches);
  TraceInfo info;
  info.model = model.name;
  info.experts = model.experts;
  info.top_k = model.top_k;
  info.layers = model.moe_layers;
  return balanced_trace(std::move(info),
                        std::int64_t{microbatches} * spec.micro_batch * spec.sequence *
                            shape.grid.size(ParallelAxis::dp),
                        spec.sequence, {model.gate_groups, model.gate_kept_groups});
}

}  // namespace

PlannedIterations::PlannedIterations(const IterationRun& run)
    : run_(run),
      options_(iteration_options(run.scenario)),
      asked_(asked_iterations(run.scenario)),
      balanced_(balanced_tokens(run)),
      planner_(run.system, run.cluster.topology, run.inputs.model,
               run.routing == RoutingSource::balanced ? balanced_ : run.inputs.trace, options_) {
  for (int i = std::max(0, asked_.first - run.scenario.warmup); i < asked_.first; ++i) {
    planner_.warm_up(i);
  }
}

IterationPlan PlannedIterations::plan(int i) {
  IterationPlan planned = planner_.plan(asked_.first + i);
  if (run_.scenario.memory != MemoryCheck::ignore) {
    check_memory(planned.memory.peaks, run_.cluster.gpus, run_.system.name);
  }
  return planned;
}

FullestGpu peak_of(const IterationMemory& memory, GpuId gpu, const GpuModels& gpus) {
  const MemoryPeak& peak = memory.peaks[gpu.index()];
  FullestGpu told{peak.use.total(), Bytes(0), gpus[gpu.index()]->memory, gpu, peak.when()};
  for (int p = 0; p < memory_part_count; ++p) {
    const auto part = static_cast<MemoryPart>(p);
    told.parts.push_back({name_of(part), peak.use.of(part)});
  }
  return told;
}

std::vector<int> stages_of(const IterationMemory& memory) {
  std::vector<int> stages;
  for (const MemoryPeak& peak : memory.peaks) stages.push_back(peak.stage);
  return stages;
}

FullestGpu fullest_of(const IterationMemory& memory, const GpuModels& gpus) {
  FullestGpu told = peak_of(memory, fullest(memory.peaks), gpus);
  double sum = 0;
  for (const MemoryPeak& each : memory.peaks) sum += static_cast<double>(each.use.total().value);
  told.mean = Bytes(std::llround(sum / static_cast<double>(memory.peaks.size())));
  return told;
}

}  // namespace moesim
