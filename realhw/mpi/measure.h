// SPDX-License-Identifier: Apache-2.0
// One policy of a scenario on all ranks.
#pragma once

#include "realhw/mpi/results.h"
#include "realhw/mpi/session.h"
#include "realhw/mpi/step_run.h"

namespace moesim {

struct MeasureOptions {
  int warmup = 1;   // runs before those that count, besides the one that is compared
  int repeats = 5;  // runs that count
  Transport transport = Transport::p2p;
  double timeout = 30;  // seconds without progress
  int compared = -1;    // tokens of a rank and layer, -1: all
};

/// Plans every step, runs it once and then timed, the first and the last run compared with the
/// reference; all ranks together.
/// Times are known on rank 0 alone, comparisons on all. Throws Unsuitable as the planner does.
Measured measure(const MpiSession& mpi, const Scenario& scenario, const Inputs& inputs,
                 const SystemSpec& system, const MeasureOptions& options);

}  // namespace moesim
