// SPDX-License-Identifier: Apache-2.0
// The simulator of each fidelity.
#pragma once

#include <memory>
#include <string>

#include "sim/plan/backend.h"
#include "sim/scenario/inputs.h"

namespace moesim {

/// Simulates plans for a cluster, which must outlive it.
std::unique_ptr<SimulatedBackend> make_backend(Fidelity fidelity, P2pOrder order,
                                               const ClusterInput& cluster);

/// "port", "flow", "flow-nccl" or "analytic".
std::string backend_name(Fidelity fidelity, P2pOrder order);

}  // namespace moesim
