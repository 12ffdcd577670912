// SPDX-License-Identifier: Apache-2.0
#include "realhw/mpi/measure.h"

#include <algorithm>

#include "sim/scenario/proof.h"

namespace moesim {
namespace {

/// The sum of what all ranks found.
Comparison over_ranks(const Comparison& c) {
  const auto sums =
      sums_over_ranks({c.outputs, c.wrong_outputs, c.input_gradients, c.wrong_input_gradients,
                       c.weight_gradients, c.wrong_weight_gradients, c.wrong_bytes});
  return {sums[0], sums[1], sums[2], sums[3], sums[4], sums[5], sums[6]};
}

void measure_step(const MpiSession& mpi, const StepPlan& planned, const Batch& batch,
                  const Topology& topology, const MoeModel& model, const MeasureOptions& options,
                  Measured& result) {
  const RealStep step(planned.plan, model, routing_of(planned, batch));
  RankState state(step, GpuId(mpi.rank()));
  StepRun run(state, options.transport, Seconds(options.timeout));
  const auto compare_all = [&] {
    result.compared += over_ranks(compare(state, {options.compared}));
  };
  run.run(true);
  compare_all();
  for (int i = 0; i < options.warmup; ++i) run.run(false);
  const TimelineGatherer clocks(mpi);
  std::vector<Seconds> makespans;
  std::vector<Timeline> timelines;
  for (int i = 0; i < options.repeats; ++i) {
    timelines.push_back(clocks.gather(planned.plan, run.run(false)));
    makespans.push_back(timelines.back().makespan);
  }
  compare_all();  // of the last run, timed and without its patterns
  if (mpi.rank() != 0) return;
  const Timeline& median = timelines[median_index(makespans)];
  add_measured(result, planned.plan, median, std::move(makespans), topology);
}

}  // namespace

Measured measure(const MpiSession& mpi, const Scenario& scenario, const Inputs& inputs,
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
    measure_step(mpi, planned, batch, cluster.topology, inputs.model, options, result);
  }
  return result;
}

}  // namespace moesim
