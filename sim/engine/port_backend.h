// SPDX-License-Identifier: Apache-2.0
// The backend at fidelity `port`: links serve exchanges at equal shares; an exchange ends with its
// last link.
#pragma once

#include <memory>

#include "sim/model/gpu_model.h"
#include "sim/plan/backend.h"
#include "sim/plan/priced.h"
#include "sim/plan/simulate/events.h"
#include "sim/plan/simulate/network.h"

namespace moesim {

/// Exchanges begin when all have joined and end for everyone at once. When one ends follows from
/// the exchanges that have begun, so that it is worked out anew only when another begins that loads
/// a link of it, and no sooner. Events and plan must outlive it.
std::unique_ptr<Network> make_port_network(Events& events, const PricedPlan& plan,
                                           Network::Ended ended);

/// Runs any number of plans, also from several threads at once. The topology must outlive it.
std::unique_ptr<SimulatedBackend> make_port_backend(const Topology& topology,
                                                    const GpuModels& gpus);

}  // namespace moesim
