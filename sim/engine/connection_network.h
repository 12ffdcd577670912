// SPDX-License-Identifier: Apache-2.0
// Fidelity `flow` on a cluster that states how its connections carry messages.
#pragma once

#include <memory>

#include "sim/plan/priced.h"
#include "sim/plan/simulate/events.h"
#include "sim/plan/simulate/network.h"
#include "sim/topology/connections.h"

namespace moesim {

/// A GPU sends when it joins, whoever else has: messages wait at the other end. An exchange ends
/// for a GPU that has joined when its sends are written and all that it receives has arrived. Where
/// hosts share cores, a rank's thread starts exchanges and kernels (HostCores::exchange_start,
/// kernel_start), packs rows and moves messages, and kernels have threads of their own, which take
/// turns on these cores. Events, plan and connections outlive it.
std::unique_ptr<Network> make_connection_network(Events& events, const PricedPlan& plan,
                                                 const Connections& connections,
                                                 Network::Ended ended);

}  // namespace moesim
