// SPDX-License-Identifier: Apache-2.0
// moesim explain: one layer of one case, planned, simulated and explained.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sim/report/explain.h"
#include "sim/scenario/inputs.h"

namespace moesim {

struct ExplainedCase {
  int layer = 0;                                   // model layer number
  std::shared_ptr<const ClusterInput> stage = {};  // of the layer, if a pipeline has several
  Explanation explanation;
  RoutingChange change;  // by the routing mechanism
  std::int64_t tokens_per_rank = 0;
  std::vector<std::string> notes;  // sentences whose subject is the policy

  /// Where it was explained; `cluster` is the scenario's.
  const Topology& topology(const ClusterInput& cluster) const {
    return stage ? stage->topology : cluster.topology;
  }
};

/// One layer of the first step of a scenario of one topology and one policy, as the comparison
/// plans it: the model layer `layer`, of an iteration in its first microbatch and without
/// attention. Throws Unsuitable.
ExplainedCase explain_case(const Scenario& scenario, const Inputs& inputs, int layer,
                           const std::vector<Fidelity>& fidelities);

/// The lines above the text of an explanation; `version` is that of the program.
std::string explain_header(const Scenario& scenario, const Inputs& inputs, const ExplainedCase& c,
                           const std::string& version);

/// All figures as JSON (schema: docs/explain.md).
std::string explain_document(const Scenario& scenario, const Inputs& inputs, const ExplainedCase& c,
                             const std::string& version);

}  // namespace moesim
