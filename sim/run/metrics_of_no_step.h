// SPDX-License-Identifier: Apache-2.0
// What is known of a case before its first step.
#pragma once

#include "sim/planner/iteration/planner.h"
#include "sim/report/metrics.h"
#include "sim/run/policy_run.h"

namespace moesim {

/// Metrics that steps are then added to: of iterations with what its model and GPUs make of a time.
RunMetrics metrics_of_no_step(const PolicyRun& run, const Planner& planner);

}  // namespace moesim
