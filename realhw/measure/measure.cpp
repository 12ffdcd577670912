// SPDX-License-Identifier: Apache-2.0
#include "realhw/measure/measure.h"

#include <algorithm>

#include "realhw/job/timeline_gatherer.h"
#include "sim/scenario/proof.h"

namespace moesim {
namespace {

/// The sum of what all ranks found.
Comparison over_ranks(Job& job, const Comparison& c) {
  const auto sums =
      sums_over_ranks(job, {c.outputs, c.wrong_outputs, c.input_gradients, c.wrong_input_gradients,
                            c.weight_gradients, c.wrong_weight_gradients, c.wrong_bytes});
  return {sums[0], sums[1], sums[2], sums[3], sums[4], sums[5], sums[6]};
}

}  // namespace

MeasuredStep measure_step(Job& job, HardwareBackend& backend, const RealStep& step,
                          const MeasureOptions& options) {
  const auto runner = backend.runner(step);
  MeasuredStep result;
  const auto compare_all = [&] {
    result.compared += over_ranks(job, runner->compare({options.compared}));
  };
  runner->run(true);
  compare_all();
  for (int i = 0; i < options.warmup; ++i) runner->run(false);
  const TimelineGatherer clocks(job);
  for (int i = 0; i < options.repeats; ++i) {
    result.repeats.push_back(clocks.gather(step.plan, runner->run(false)));
  }
  compare_all();  // of the last run, timed and without its patterns
  return result;
}

Measured measure(Job& job, HardwareBackend& backend, const Scenario& scenario, const Inputs& inputs,
                 const SystemSpec& system, const MeasureOptions& options) {
  const ClusterInput& cluster = inputs.clusters[0];
  PlannerOptions planner_options = inputs.planner_options(scenario, cluster);
  planner_options.explicit_rows = true;
  StepPlanner planner(system, cluster.topology, inputs.model, inputs.trace, planner_options);
  Measured result;
  result.policy = system.name;
  for (std::size_t i = 0; i < cluster.batches.batches.size(); ++i) {
    const Batch& batch = cluster.batches.batches[i];
    const StepPlan planned = planner.plan(batch, cluster.first_step + static_cast<int>(i));
    result.metrics.planning += planned.planning();
    result.metrics.dropped_choices += planned.change.dropped_choices;
    result.metrics.replaced_choices += planned.change.replaced_choices;
    for (const GpuMemory& gpu : planned.memory) {
      result.metrics.peak_memory = std::max(result.metrics.peak_memory, gpu.total());
    }
    const RealStep step(planned.plan, inputs.model, routing_of(planned, batch));
    const MeasuredStep measured = measure_step(job, backend, step, options);
    result.compared += measured.compared;
    if (job.rank() == 0) add_measured(result, planned.plan, measured, cluster.topology);
  }
  return result;
}

}  // namespace moesim
