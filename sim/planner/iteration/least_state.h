// SPDX-License-Identifier: Apache-2.0
// What the state of a training iteration takes at least, worked out without a plan of it.
#pragma once

#include <string>
#include <vector>

#include "sim/planner/iteration/spec.h"
#include "sim/planner/iteration/step_memory.h"

namespace moesim {

/// What helps an iteration, or a pass of serving, that does not fit; nothing that it has already.
std::string hint_of_memory(const Spec& spec, const Grid& grid, const MoeModel& model);

/// Whether Muon updates matrices, and Adam the rest.
bool by_muon(const Spec& spec);

/// State of dense parameters on one of the replicas that share it as `zero` says. What Muon updates
/// has no optimizer state here: its matrices are dealt out whole.
MemoryUse state_of_dense(std::int64_t parameters, std::int64_t replicas, const MoeModel& model,
                         const Spec& spec);

/// [pipeline stage] Weights, gradients and optimizer states that its fullest GPU holds at least,
/// whatever the tokens choose: dense parameters, and routed experts as if EP groups held each once,
/// spread evenly. `divides_experts`: a placement may keep less of them, so they do not count.
std::vector<MemoryUse> least_state(const Spec& spec, const IterationShape& shape,
                                   const MoeModel& model, bool divides_experts);

/// Throws Unsuitable with this hint if a stage lacks memory on every GPU, for the one that lacks
/// most.
void check_least_state(const std::vector<MemoryUse>& stages, const Grid& grid,
                       const GpuModels& gpus, const std::string& policy, const std::string& hint);

}  // namespace moesim
