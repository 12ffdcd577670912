// SPDX-License-Identifier: Apache-2.0
// From one batch of a trace to the plan of one simulated step.
#pragma once

#include <string>
#include <vector>

#include "sim/policy/layer_planner.h"
#include "sim/policy/memory.h"

namespace moesim {

struct StepPlan {
  Plan plan;
  std::vector<LayerWork> layers;
  RoutingChange change;
  std::vector<ChosenExperts> chosen;  // [layer], only with explicit rows
  std::vector<GpuMemory> memory;      // [gpu]
  Seconds planning() const;           // of the host, over all layers
  bool replanned() const;             // slots of any layer, from loads
};

/// Turns batches into plans of one microbatch on all GPUs.
class StepPlanner {
 public:
  /// As LayerPlanner.
  StepPlanner(const SystemSpec& system, const Topology& topology, const MoeModel& model,
              const RoutingTrace& trace, PlannerOptions options);
  /// A plan that obeys the rules of check_plan.
  StepPlan plan(const Batch& batch, int step);
  /// One layer of a step that was planned from this batch, by itself and with explicit rows: those
  /// of all layers at once may not fit into memory. `layer` is an index into StepPlan::layers.
  StepPlan layer_with_rows(const StepPlan& planned, const Batch& batch, std::size_t layer);
  const LayerPlanner& layers() const { return layers_; }

 private:
  void add_ops(StepPlan& result) const;

  std::string name_;
  Transports transports_;
  int gpus_;
  LayerPlanner layers_;
};

}  // namespace moesim
