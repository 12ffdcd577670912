// SPDX-License-Identifier: Apache-2.0
// The elasticities of a plan, by simulating it again with one resource after the other changed.
#pragma once

#include <vector>

#include "sim/plan/plan.h"
#include "sim/report/elasticity.h"
#include "sim/scenario/inputs.h"

namespace moesim {

/// What a scenario simulates plans with.
struct SimulatedAt {
  Fidelity fidelity = Fidelity::port;
  P2pOrder order = P2pOrder::all_at_once;
};

/// The elasticity of every resource of the cluster (resources_of) but the latency of all link
/// classes, which is the sum of theirs. If several classes bind alike, only their bandwidths
/// together are worth something. Resources that the plan does not meet are there, without effect.
/// `factor` times as good; `before` is the makespan of the plan as it is.
std::vector<Elasticity> elasticities(const Plan& plan, const ClusterInput& cluster,
                                     const SimulatedAt& at, Seconds before, double factor = 1.1);

}  // namespace moesim
