// SPDX-License-Identifier: Apache-2.0
#include "sim/engine/engine_backend.h"

#include <utility>

#include "sim/base/wire.h"
#include "sim/engine/child_process.h"
#include "sim/engine/engine_events.h"
#include "sim/plan/simulate/execution.h"

namespace moesim {
namespace {

class EngineBackend : public SimulatedBackend {
 public:
  EngineBackend(const Topology& topology, GpuModels gpus, bool local, NetworkOf network,
                LikelyTime likely, HostsCompute hosts)
      : SimulatedBackend(topology),
        gpus_(std::move(gpus)),
        local_(local),
        network_(std::move(network)),
        likely_(std::move(likely)),
        hosts_(hosts) {}

  Seconds likely_time(const PricedPlan& plan) const override {
    return likely_ ? likely_(plan) : Seconds(0);
  }

  Timeline run(const PricedPlan& plan) override {
    Execution execution(plan, gpus_, hosts_);
    if (local_) return run_here(std::move(execution), plan);
    return from_bytes<Timeline>(
        run_in_child([&] { return to_bytes(run_here(std::move(execution), plan)); }));
  }

 private:
  Timeline run_here(Execution execution, const PricedPlan& plan) const {
    EngineEvents events;
    return std::move(execution).run(events, [&](Network::Ended ended) {
      return network_(events, plan, std::move(ended), watch());
    });
  }

  GpuModels gpus_;
  bool local_;
  NetworkOf network_;
  LikelyTime likely_;
  HostsCompute hosts_;
};

}  // namespace

std::unique_ptr<SimulatedBackend> make_engine_backend(const Topology& topology,
                                                      const GpuModels& gpus, bool local,
                                                      NetworkOf network, LikelyTime likely,
                                                      HostsCompute hosts) {
  return std::make_unique<EngineBackend>(topology, gpus, local, std::move(network),
                                         std::move(likely), hosts);
}

}  // namespace moesim
