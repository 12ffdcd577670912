// SPDX-License-Identifier: Apache-2.0
// Sentences below a run's table.
#pragma once

#include <string>
#include <vector>

#include "sim/planner/iteration/planner.h"
#include "sim/report/metrics.h"
#include "sim/scenario/inputs.h"

namespace moesim {

/// What a planner did in a run.
struct PlanningRecord {
  int played = 0;   // steps, those of the warm-up too
  int replans = 0;  // of these, with new slots from loads
};

/// Notes on a policy that decides from loads and never did, that had no choice, or that began
/// without having seen the steps before. Sentences whose subject is the policy.
std::vector<std::string> planning_notes(const Planner& planner, const ClusterInput& cluster,
                                        const PlanningRecord& record);

/// Why the cluster cannot run what was simulated: the policy's kernels, or of a pass of serving the
/// memory that an engine takes, if that is checked. Empty: it can.
std::string cannot_run(const Planner& planner, const RunMetrics& metrics, MemoryCheck memory);

/// Notes on iterations: that they do not fit, that fewer GPUs or microbatches were simulated than
/// there are, and on a policy that never decided from loads.
std::vector<std::string> iteration_notes(const Planner& planner, const ClusterInput& cluster,
                                         const IterationFigures& figures);

/// Of passes of more tokens per rank than DeepEP's low-latency kernels are for; nothing if they are
/// for so many, or if the policy has others.
std::string low_latency_note(const SystemSpec& system, const MoeModel& model, std::int64_t tokens);
/// The same of a pass of serving; nothing of other iterations.
std::string low_latency_note(const SystemSpec& system, const MoeModel& model,
                             const IterationSpec& spec);

}  // namespace moesim
