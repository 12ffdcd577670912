// SPDX-License-Identifier: Apache-2.0
#include "sim/engine/flow_backend.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "sim/base/wire.h"
#include "sim/engine/child_process.h"
#include "sim/engine/engine_backend.h"
#include "sim/engine/flow_network.h"
#include "sim/engine/max_min_carrier.h"
#include "sim/engine/simgrid_carrier.h"
#include "sim/plan/simulate/execution.h"

namespace moesim {
namespace {

/// A part of the plan's shortest transfer, and at least a nanosecond.
Seconds precision_of(const PricedPlan& plan, double part) {
  // Each completion solves the max-min system of all flows, so that taking those together that are
  // almost simultaneous saves most of the time.
  constexpr Seconds least(1e-9);
  Seconds shortest(std::numeric_limits<double>::infinity());
  for (std::size_t i = 0; i < plan.plan().ops.size(); ++i) {
    const auto& price = plan[OpId(static_cast<std::int64_t>(i))];
    if (price && !price->loads.uses.empty()) shortest = std::min(shortest, price->alone.transfer);
  }
  return shortest.value < std::numeric_limits<double>::infinity() ? std::max(least, shortest * part)
                                                                  : least;
}

class SimgridBackend : public SimulatedBackend {
 public:
  SimgridBackend(const Topology& topology, GpuModels gpus, const FlowOptions& options)
      : SimulatedBackend(topology), gpus_(std::move(gpus)), options_(options) {}

  /// SimGrid has one engine per process, with a platform that cannot change once it has run and a
  /// clock that cannot go back, so that a second run would start late and round differently.
  Timeline run(const PricedPlan& plan) override {
    Execution execution(plan, gpus_);
    return from_bytes<Timeline>(run_in_child([&] {
      Simulator simulator(precision_of(plan, options_.precision));
      return to_bytes(std::move(execution).run(simulator, [&](Network::Ended ended) {
        return make_flow_network(simulator, plan, options_, std::move(ended),
                                 make_simgrid_carrier(simulator, plan.topology().gpu_count()));
      }));
    }));
  }

 private:
  GpuModels gpus_;
  FlowOptions options_;
};

NetworkOf network_with(const FlowOptions& options) {
  return [options](Events& events, const PricedPlan& plan, Network::Ended ended) {
    return make_flow_network(events, plan, options, std::move(ended), make_max_min_carrier(events));
  };
}

}  // namespace

std::unique_ptr<SimulatedBackend> make_flow_backend(const Topology& topology, const GpuModels& gpus,
                                                    const FlowOptions& options) {
  return make_engine_backend(topology, gpus, false, network_with(options));
}

std::unique_ptr<SimulatedBackend> make_local_flow_backend(const Topology& topology,
                                                          const GpuModels& gpus,
                                                          const FlowOptions& options) {
  return make_engine_backend(topology, gpus, true, network_with(options));
}

std::unique_ptr<SimulatedBackend> make_simgrid_backend(const Topology& topology,
                                                       const GpuModels& gpus,
                                                       const FlowOptions& options) {
  return std::make_unique<SimgridBackend>(topology, gpus, options);
}

}  // namespace moesim
