// SPDX-License-Identifier: Apache-2.0
#include "sim/engine/flow_backend.h"

#include <utility>

#include "sim/base/wire.h"
#include "sim/engine/child_process.h"
#include "sim/engine/flow_network.h"
#include "sim/plan/simulate/execution.h"

namespace moesim {
namespace {

class FlowBackend : public SimulatedBackend {
 public:
  FlowBackend(const Topology& topology, GpuModels gpus, const FlowOptions& options)
      : SimulatedBackend(topology), gpus_(std::move(gpus)), options_(options) {}

  /// SimGrid has one engine per process, with a platform that cannot change once it has run and a
  /// clock that cannot go back, so that a second run would start late and round differently.
  Timeline run(const PricedPlan& plan) override {
    Execution execution(plan, gpus_);
    return from_bytes<Timeline>(run_in_child([&] {
      Simulator simulator(flow_precision(plan, options_.precision));
      return to_bytes(std::move(execution).run(simulator, [&](Network::Ended ended) {
        return make_flow_network(simulator, plan, options_, std::move(ended));
      }));
    }));
  }

 private:
  GpuModels gpus_;
  FlowOptions options_;
};

}  // namespace

std::unique_ptr<SimulatedBackend> make_flow_backend(const Topology& topology, const GpuModels& gpus,
                                                    const FlowOptions& options) {
  return std::make_unique<FlowBackend>(topology, gpus, options);
}

}  // namespace moesim
