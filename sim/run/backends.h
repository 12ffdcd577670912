// SPDX-License-Identifier: Apache-2.0
// The simulator of each fidelity.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sim/plan/backend.h"
#include "sim/report/time_bounds.h"
#include "sim/scenario/inputs.h"

namespace moesim {

/// Simulates plans for a cluster, which must outlive it.
std::unique_ptr<SimulatedBackend> make_backend(Fidelity fidelity, P2pOrder order,
                                               const ClusterInput& cluster);
/// The same with other models of its GPUs, which must outlive it, too.
std::unique_ptr<SimulatedBackend> make_backend(Fidelity fidelity, P2pOrder order,
                                               const ClusterInput& cluster, const GpuModels& gpus);

/// One for each fidelity.
std::vector<std::unique_ptr<SimulatedBackend>> make_backends(
    const std::vector<Fidelity>& fidelities, P2pOrder order, const ClusterInput& cluster);

/// "port", "flow", "simgrid", "flow-nccl", "simgrid-nccl" or "analytic".
std::string backend_name(Fidelity fidelity, P2pOrder order);

/// How a fidelity treats exchanges, for bounds of its times.
ExchangeRules exchange_rules(Fidelity fidelity);

}  // namespace moesim
