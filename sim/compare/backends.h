// SPDX-License-Identifier: Apache-2.0
// The simulator of each fidelity.
#pragma once

#include <memory>
#include <string>

#include "sim/plan/backend.h"
#include "sim/scenario/inputs.h"

namespace moesim {

/// Whether a process simulates at `flow` besides: then `port` takes a child process for every plan.
enum class Beside { flow, no_flow };

/// Simulates plans for a cluster, which must outlive it.
std::unique_ptr<SimulatedBackend> make_backend(Fidelity fidelity, P2pOrder order,
                                               const ClusterInput& cluster,
                                               Beside beside = Beside::flow);

/// "port", "flow", "flow-nccl" or "analytic".
std::string backend_name(Fidelity fidelity, P2pOrder order);

}  // namespace moesim
