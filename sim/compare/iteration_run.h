// SPDX-License-Identifier: Apache-2.0
// The iterations of one policy on one cluster and one kind of routing, planned one after the other.
#pragma once

#include "sim/compare/timeline_file.h"
#include "sim/iteration/iteration_planner.h"
#include "sim/report/iteration_table.h"
#include "sim/scenario/policy_iterations.h"

namespace moesim {

/// What is planned. All of it must outlive its use.
struct IterationRun {
  const Scenario& scenario;
  const Inputs& inputs;
  const ClusterInput& cluster;
  const SystemSpec& system;
  RoutingSource routing;
  const TimelineFile* timeline = nullptr;  // where it is asked for
  int number = 0;                          // of the run
};

class PlannedIterations {
 public:
  /// Shows the planners the warm-up. Throws as IterationPlanner.
  explicit PlannedIterations(const IterationRun& run);

  int count() const { return asked_.count; }
  const IterationOptions& options() const { return options_; }
  const IterationPlanner& planner() const { return planner_; }
  /// The i-th of `count`, after those before it; refused as Unsuitable where it does not fit into
  /// memory and the scenario asks.
  IterationPlan plan(int i);

 private:
  const IterationRun run_;
  IterationOptions options_;
  AskedIterations asked_;
  RoutingTrace balanced_;  // empty where the recorded tokens are replayed
  IterationPlanner planner_;
};

/// The fullest moment of a GPU; `mean` is left 0.
FullestGpu peak_of(const IterationMemory& memory, GpuId gpu, const GpuModels& gpus);
/// [GPU] its stage of the pipeline.
std::vector<int> stages_of(const IterationMemory& memory);
/// Of the fullest GPU, beside the mean of all.
FullestGpu fullest_of(const IterationMemory& memory, const GpuModels& gpus);

}  // namespace moesim
