// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "sim/run/policy_run.h"

namespace moesim {

/// Runs of one cluster, an index into Inputs::clusters: every policy; of iterations on balanced
/// tokens before those on recorded ones, with the first policy only.
std::vector<PolicyRun> runs_on(const Scenario& scenario, const Inputs& inputs, std::size_t place);

}  // namespace moesim
