// SPDX-License-Identifier: Apache-2.0
// moesim explain for a scenario of iterations: the first one, planned, simulated and explained.
#pragma once

#include <string>

#include "sim/plan/plan.h"
#include "sim/report/iteration_explain.h"
#include "sim/scenario/inputs.h"

namespace moesim {

struct ExplainedIteration {
  IterationExplanation explanation;
  Plan plan;
  std::string routing, fidelity;
};

/// The first iteration of a scenario of one topology and one policy at its first fidelity, on
/// recorded tokens unless it names only balanced ones. Throws Unsuitable.
ExplainedIteration explain_iteration(const Scenario& scenario, const Inputs& inputs,
                                     bool elasticities);

/// The lines above the text; `version` is that of the program.
std::string explain_iteration_header(const Scenario& scenario, const Inputs& inputs,
                                     const ExplainedIteration& e, const std::string& version);

/// All figures as JSON (schema: docs/explain.md).
std::string explain_iteration_document(const Scenario& scenario, const Inputs& inputs,
                                       const ExplainedIteration& e, const std::string& version);

}  // namespace moesim
