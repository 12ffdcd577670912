// SPDX-License-Identifier: Apache-2.0
// Runs the cases of a scenario: every topology x policy x fidelity.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sim/plan/backend.h"
#include "sim/scenario/inputs.h"

namespace moesim {

/// Simulates plans for a cluster, which must outlive it.
std::unique_ptr<Backend> make_backend(Fidelity fidelity, P2pOrder order,
                                      const ClusterInput& cluster);

/// "port", "flow", "flow-nccl" or "analytic".
std::string backend_name(Fidelity fidelity, P2pOrder order);

/// The results of all cases (JSON of case_json) in the order topology, fidelity, policy, computed
/// by `workers` processes; the results do not depend on their number. Throws Error with all reasons
/// when none of them can run.
std::vector<std::string> simulate(const Scenario& scenario, const Inputs& inputs, int workers);

}  // namespace moesim
