// SPDX-License-Identifier: Apache-2.0
#include "sim/engine/port_backend.h"

#include <utility>

#include "sim/engine/engine_backend.h"
#include "sim/engine/port_network.h"

namespace moesim {
namespace {

std::unique_ptr<Network> port_network(Events& events, const PricedPlan& plan, Network::Ended ended,
                                      const SimulatedBackend::Watch&) {
  return make_port_network(events, plan, std::move(ended));
}

}  // namespace

std::unique_ptr<SimulatedBackend> make_port_backend(const Topology& topology,
                                                    const GpuModels& gpus) {
  return make_engine_backend(topology, gpus, port_network, {}, HostsCompute::alone,
                             Progress::ExchangeEnds::together);
}

}  // namespace moesim
