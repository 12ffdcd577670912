// SPDX-License-Identifier: Apache-2.0
#include "sim/engine/port_backend.h"

#include <utility>

#include "sim/base/wire.h"
#include "sim/engine/child_process.h"
#include "sim/engine/engine_events.h"
#include "sim/engine/port_network.h"
#include "sim/plan/simulate/execution.h"

namespace moesim {
namespace {

Timeline run_here(Execution execution, const PricedPlan& plan) {
  EngineEvents events;
  return std::move(execution).run(events, [&](Network::Ended ended) {
    return make_port_network(events, plan, std::move(ended));
  });
}

class PortBackend : public SimulatedBackend {
 public:
  PortBackend(const Topology& topology, GpuModels gpus, bool local)
      : SimulatedBackend(topology), gpus_(std::move(gpus)), local_(local) {}

  Timeline run(const PricedPlan& plan) override {
    Execution execution(plan, gpus_);
    if (local_) return run_here(std::move(execution), plan);
    return from_bytes<Timeline>(
        run_in_child([&] { return to_bytes(run_here(std::move(execution), plan)); }));
  }

 private:
  GpuModels gpus_;
  bool local_;
};

}  // namespace

std::unique_ptr<SimulatedBackend> make_port_backend(const Topology& topology,
                                                    const GpuModels& gpus) {
  return std::make_unique<PortBackend>(topology, gpus, false);
}

std::unique_ptr<SimulatedBackend> make_local_port_backend(const Topology& topology,
                                                          const GpuModels& gpus) {
  return std::make_unique<PortBackend>(topology, gpus, true);
}

}  // namespace moesim
