// SPDX-License-Identifier: Apache-2.0
#include "sim/engine/engine_backend.h"

#include <utility>

#include "sim/plan/simulate/execution.h"

namespace moesim {
namespace {

class EngineBackend : public SimulatedBackend {
 public:
  EngineBackend(const Topology& topology, GpuModels gpus, NetworkOf network, LikelyTime likely,
                HostsCompute hosts, Progress::ExchangeEnds ends)
      : SimulatedBackend(topology),
        gpus_(std::move(gpus)),
        network_(std::move(network)),
        likely_(std::move(likely)),
        hosts_(hosts),
        ends_(ends) {}

  Seconds likely_time(const PricedPlan& plan) const override {
    return likely_ ? likely_(plan) : Seconds(0);
  }

  Timeline run(const PricedPlan& plan) override {
    Execution execution(plan, gpus_, hosts_, ends_);
    EventQueue events;
    return std::move(execution).run(events, [&](Network::Ended ended) {
      return network_(events, plan, std::move(ended), watch());
    });
  }

 private:
  GpuModels gpus_;
  NetworkOf network_;
  LikelyTime likely_;
  HostsCompute hosts_;
  Progress::ExchangeEnds ends_;
};

}  // namespace

std::unique_ptr<SimulatedBackend> make_engine_backend(const Topology& topology,
                                                      const GpuModels& gpus, NetworkOf network,
                                                      LikelyTime likely, HostsCompute hosts,
                                                      Progress::ExchangeEnds ends) {
  return std::make_unique<EngineBackend>(topology, gpus, std::move(network), std::move(likely),
                                         hosts, ends);
}

}  // namespace moesim
