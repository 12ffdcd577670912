// SPDX-License-Identifier: Apache-2.0
#include "sim/engine/port_backend.h"

#include <utility>

#include "sim/engine/port_network.h"
#include "sim/plan/simulate/execution.h"

namespace moesim {
namespace {

class PortBackend : public SimulatedBackend {
 public:
  PortBackend(const Topology& topology, GpuModels gpus)
      : SimulatedBackend(topology), gpus_(std::move(gpus)) {}

  Timeline run(const PricedPlan& plan) override {
    EventQueue events;
    return Execution(plan, gpus_).run(events, [&](Network::Ended ended) {
      return make_port_network(events, plan, std::move(ended));
    });
  }

 private:
  GpuModels gpus_;
};

}  // namespace

std::unique_ptr<SimulatedBackend> make_port_backend(const Topology& topology,
                                                    const GpuModels& gpus) {
  return std::make_unique<PortBackend>(topology, gpus);
}

}  // namespace moesim
