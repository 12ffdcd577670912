// SPDX-License-Identifier: Apache-2.0
// The steps that a scenario asks for, planned for one policy on one cluster.
#pragma once

#include <memory>

#include "sim/planner/iteration/planner.h"
#include "sim/scenario/inputs.h"

namespace moesim {

/// What a scenario of whole iterations says to the planner.
Spec spec_of(const Scenario& scenario);

/// The steps that a scenario asks for, first and number. Those before the first that planners see
/// are the warm-up.
struct AskedSteps {
  int first = 0, count = 0;
};
AskedSteps asked_iterations(const Scenario& scenario);
/// The same of any scenario, on a cluster that its trace was fitted to.
AskedSteps asked_steps(const Scenario& scenario, const ClusterInput& cluster);

class PolicyPlanner {
 public:
  struct Options {
    RoutingSource routing = RoutingSource::recorded;
    bool explicit_rows = false;
    bool join_alike = false;           // Spec::join_alike
    bool fewer_microbatches = false;   // of iterations: Spec::fewer_microbatches
    bool settled = false;              // of iterations: Spec::settled
    bool told = false;                 // of iterations: Spec::told; nothing is shown
    Planner* told_by = nullptr;        // of iterations: Spec::told_by, and nothing is shown
    Planner* moved_from = nullptr;     // Spec::moved_from
    CountedLayers* counted = nullptr;  // of steps: by planners for this cluster at other rates
  };
  /// Shows the planner the warm-up. All but the options must outlive it. Throws as Planner.
  PolicyPlanner(const Scenario& scenario, const Inputs& inputs, const ClusterInput& cluster,
                const SystemSpec& system, Options options);
  PolicyPlanner(const Scenario& scenario, const Inputs& inputs, const ClusterInput& cluster,
                const SystemSpec& system)
      : PolicyPlanner(scenario, inputs, cluster, system, Options()) {}
  /// On the first topology.
  explicit PolicyPlanner(const PolicyView& view) : PolicyPlanner(view, Options()) {}
  PolicyPlanner(const PolicyView& view, Options options)
      : PolicyPlanner(view.scenario, view.inputs, view.inputs.clusters[0], view.system, options) {}

  int count() const { return asked_.count; }
  /// The number of the i-th step among those of the trace.
  int number(int i) const { return asked_.first + i; }
  Planner& planner() { return *planner_; }
  const Planner& planner() const { return *planner_; }

  /// The i-th of `count`, after those before it.
  PlannedStep plan(int i) { return planner_->plan(number(i)); }
  /// Throws Unsuitable for a step that does not fit into the memory of GPUs if the scenario asks.
  void require_memory(const PlannedStep& step, const GpuModels& gpus) const;
  /// What the layers of a step would take if there were as many as the model has, of one that has
  /// only MoE layers.
  MemoryPeaks model_memory(const PlannedStep& step) const;

 private:
  PolicyPlanner(Options options, const Scenario& scenario, const Inputs& inputs,
                const ClusterInput& cluster, const SystemSpec& system);
  int model_layers() const;
  std::int64_t tokens_of_microbatch() const;

  const Scenario& scenario_;
  const Inputs& inputs_;
  const ClusterInput& cluster_;
  const SystemSpec& system_;
  AskedSteps asked_;
  RoutingTrace balanced_;  // empty if choices are played
  std::unique_ptr<Planner> planner_;
};

}  // namespace moesim
