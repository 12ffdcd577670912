// SPDX-License-Identifier: Apache-2.0
// Fidelities `flow` and `simgrid`: one flow per pair of GPUs and path.
#pragma once

#include <memory>

#include "sim/engine/flow_backend.h"
#include "sim/engine/flow_carrier.h"
#include "sim/plan/priced.h"
#include "sim/plan/simulate/events.h"
#include "sim/plan/simulate/network.h"

namespace moesim {

/// A flow begins when both its GPUs have joined the exchange; the exchange ends for a GPU with the
/// last of its own. `watch` gets the pairs that have ended. Events and plan must outlive it.
std::unique_ptr<Network> make_flow_network(Events& events, const PricedPlan& plan,
                                           const FlowOptions& options, Network::Ended ended,
                                           const SimulatedBackend::Watch& watch,
                                           std::unique_ptr<FlowCarrier> carrier);

}  // namespace moesim
