// SPDX-License-Identifier: Apache-2.0
// Runs the iterations of a scenario: every topology x policy x fidelity on recorded tokens, and the
// first policy on balanced ones where they are asked for.
#pragma once

#include <string>
#include <vector>

#include "sim/compare/simulate.h"
#include "sim/report/iteration_table.h"
#include "sim/scenario/inputs.h"

namespace moesim {

struct SimulatedIterations {
  std::vector<IterationCase> cases;
  int signal = 0;  // that ended it early, else 0: see ComparisonOptions::keep_finished
};

/// In the order topology, fidelity, then balanced routing before the recorded one of every policy.
/// The inputs must outlive the result. Throws
/// Error with all reasons when no case can run, and Interrupted where a signal ends it and nothing
/// is kept.
SimulatedIterations simulate_iterations(const Scenario& scenario, const Inputs& inputs,
                                        const ComparisonOptions& options);

/// The header lines above the table: version, inputs, grid, batch, and what is left out.
std::string iteration_header(const Scenario& scenario, const Inputs& inputs,
                             const std::string& version);

/// The JSON file of iterations (schema: docs/metrics.md).
std::string iterations_json(const Scenario& scenario, const Inputs& inputs,
                            const std::vector<IterationCase>& cases, const std::string& version);
/// With what reports draw of the cases (schema: docs/report.md).
std::string pictured_iterations_json(const Scenario& scenario, const Inputs& inputs,
                                     const std::vector<IterationCase>& cases,
                                     const std::string& version);

}  // namespace moesim
