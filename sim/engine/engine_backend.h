// SPDX-License-Identifier: Apache-2.0
// Backends whose events are simulated in this process.
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

/// Runs any number of plans. The topology must outlive it.
std::unique_ptr<SimulatedBackend> make_engine_backend(
    const Topology& topology, const GpuModels& gpus, NetworkOf network, LikelyTime likely = {},
    HostsCompute hosts = HostsCompute::alone,
    Progress::ExchangeEnds ends = Progress::ExchangeEnds::one_by_one);

}  // namespace moesim
