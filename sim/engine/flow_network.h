// SPDX-License-Identifier: Apache-2.0
// Fidelity `flow`: one SimGrid communication per pair of GPUs and path.
#pragma once

#include <memory>

#include "sim/engine/flow_backend.h"
#include "sim/engine/simulator.h"
#include "sim/plan/priced.h"
#include "sim/plan/simulate/network.h"

namespace moesim {

/// A part of the plan's shortest transfer, and at least a nanosecond.
Seconds flow_precision(const PricedPlan& plan, double part);

/// A communication begins when both its GPUs have joined the exchange; the exchange ends for a GPU
/// with the last of its own. Adds its platform to the simulator, which must outlive it like the
/// plan.
std::unique_ptr<Network> make_flow_network(Simulator& simulator, const PricedPlan& plan,
                                           const FlowOptions& options, Network::Ended ended);

}  // namespace moesim
