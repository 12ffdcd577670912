// SPDX-License-Identifier: Apache-2.0
// Runs of engines: every topology x policy x fidelity of a scenario with requests.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/report/case_report.h"
#include "sim/run/comparison_options.h"
#include "sim/scenario/inputs.h"
#include "sim/serving/deployment/serving_metrics.h"
#include "sim/serving/engine/price_table.h"

namespace moesim {

/// What a worker hands back.
struct EngineOutcome {
  ServingMetrics metrics;
  std::vector<ServingSample> samples;  // thinned
  int ranks = 0, gpus = 0;             // of attention data parallelism per instance; of all
  std::int64_t kv_tokens = 0;          // that a rank has room for; no_limit: the model does not say
  std::int64_t simulated = 0;          // passes
  PriceErrors errors;                  // of reused prices
  std::int64_t moved_requests = 0;
  Bytes moved;  // keys and values between pools
  Seconds lost{};
  std::string unsuitable = {};
};

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

/// Runs the cases in worker processes, as simulate() does. Throws Error if no case can run, and for
/// requests that cannot be served; Interrupted if a signal ends it and nothing is kept.
EngineResult run_engines(const Scenario& scenario, const Inputs& inputs,
                         const ComparisonOptions& options);

}  // namespace moesim
