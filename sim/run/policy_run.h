// SPDX-License-Identifier: Apache-2.0
// One policy on one cluster: planned step by step, simulated at every fidelity and measured.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/report/bounds_table.h"
#include "sim/report/metrics.h"
#include "sim/report/pictures.h"
#include "sim/run/comparison_options.h"
#include "sim/run/workers.h"
#include "sim/scenario/policy_planner.h"

namespace moesim {

/// What a worker runs. All of it must outlive the run.
struct PolicyRun {
  const Scenario& scenario;
  const Inputs& inputs;
  const ClusterInput& cluster;
  const SystemSpec& system;
  RoutingSource routing = RoutingSource::recorded;
  const TimelineFile* timeline = nullptr;  // if it is asked for
  int number = 0;                          // of the run

  /// "recorded" or "balanced" of iterations, else empty.
  std::string routing_text() const;
  /// "h100-rail megatron", with the routing of iterations.
  std::string name() const;
};

/// What it hands back: metrics of each fidelity, or why there are none.
struct PolicyOutcome {
  std::vector<RunMetrics> metrics;
  std::string unsuitable;
  std::optional<BoundSums> bounds;
  std::vector<Pictures> pictures;  // of each fidelity, or none
  bool fixed = false;              // its placement decides nothing from loads
  std::string hint = {};           // what may help, if it is unsuitable
  std::string cannot_run = {};     // why the cluster cannot run it; empty: it can
};

/// Plans each step once and simulates it at every fidelity before the next: planners look back, and
/// plans of all steps would not fit. If it throws Unsuitable, `outcome` keeps the bounds.
void run_policy(const PolicyRun& run, const ComparisonOptions& asked, PolicyOutcome& outcome,
                const JobProgress& progress);

}  // namespace moesim
