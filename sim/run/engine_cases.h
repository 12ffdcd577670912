// SPDX-License-Identifier: Apache-2.0
// Runs of engines: every topology x policy x fidelity of a scenario with requests.
#pragma once

#include <vector>

#include "sim/report/case_report.h"
#include "sim/run/comparison_options.h"
#include "sim/run/engine_outcome.h"
#include "sim/scenario/inputs.h"

namespace moesim {

struct RequestLog;

struct EngineCase {
  CaseName name;
  EngineOutcome outcome;
  bool interrupted = false;
  bool ran() const { return outcome.unsuitable.empty(); }
};

struct EngineResult {
  std::vector<EngineCase> cases;  // in the order topology, fidelity, policy
  int signal = 0;                 // that ended it early, else 0
};

/// The requests of a run: its log, or drawn ones.
RequestLog requests_of(const EngineRun& run);

/// Runs the cases in worker processes, as simulate() does. Throws Error if no case can run, and for
/// requests that cannot be served; Interrupted if a signal ends it and nothing is kept.
EngineResult run_engines(const Scenario& scenario, const Inputs& inputs,
                         const ComparisonOptions& options);

}  // namespace moesim
