// SPDX-License-Identifier: Apache-2.0
// Backends whose events run on the clock of SimGrid's engine.
#pragma once

#include <functional>
#include <memory>

#include "sim/model/gpu_model.h"
#include "sim/plan/backend.h"
#include "sim/plan/simulate/events.h"
#include "sim/plan/simulate/network.h"

namespace moesim {

/// The network of one run.
using NetworkOf = std::function<std::unique_ptr<Network>(Events&, const PricedPlan&, Network::Ended,
                                                         const SimulatedBackend::Watch&)>;
using LikelyTime = std::function<Seconds(const PricedPlan&)>;

/// `local`: plans run one after the other on the one engine of this process. Else each takes a
/// child process with an engine of its own. The topology must outlive it.
std::unique_ptr<SimulatedBackend> make_engine_backend(const Topology& topology,
                                                      const GpuModels& gpus, bool local,
                                                      NetworkOf network, LikelyTime likely = {},
                                                      HostsCompute hosts = HostsCompute::alone);

}  // namespace moesim
