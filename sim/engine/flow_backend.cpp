// SPDX-License-Identifier: Apache-2.0
#include "sim/engine/flow_backend.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "sim/base/unsuitable.h"
#include "sim/base/wire.h"
#include "sim/engine/child_process.h"
#include "sim/engine/connection_network.h"
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

/// Sums time(flows) of each exchange, as if one followed the other.
template <class Time>
Seconds sum_over_exchanges(const PricedPlan& plan, Time time) {
  Seconds sum;
  for (const Op& op : plan.plan().ops) {
    if (!op.exchange() || op.group.size() < 2) continue;
    const auto paths =
        plan.topology().paths(op.group.front(), op.group[op.group.size() - 1]).size();
    sum += Seconds(time(static_cast<double>(op.traffic().matrix.entries() * paths)));
  }
  return sum;
}

// Measured (docs/results/speed.md): the flows of a large exchange do not fit into a cache.
Seconds flow_time(const PricedPlan& plan) {
  return sum_over_exchanges(plan, [](double flows) {
    return 3e-6 * flows * std::max(1.0, std::pow(flows / 65536, 0.2));
  });
}

Seconds simgrid_time(const PricedPlan& plan) {
  return sum_over_exchanges(plan, [](double flows) { return std::pow(flows / 4032, 2.4); });
}

/// Throws Unsuitable if a plan copies to the memory of hosts, which this does not carry.
void check_no_host_copies(const Plan& plan) {
  for (const Op& op : plan.ops) {
    if (op.exchange() == nullptr || !op.exchange()->with_hosts) continue;
    throw Unsuitable("copies to the memory of hosts are simulated at port, flow and analytic",
                     "another fidelity, a topology without 'connections', or offload: none");
  }
}

class SimgridBackend : public SimulatedBackend {
 public:
  SimgridBackend(const Topology& topology, GpuModels gpus, const FlowOptions& options)
      : SimulatedBackend(topology), gpus_(std::move(gpus)), options_(options) {
    load_simgrid();  // once, and not in the process of every plan
  }

  Seconds likely_time(const PricedPlan& plan) const override { return simgrid_time(plan); }

  /// SimGrid has one engine per process, with a platform that cannot change once it has run and a
  /// clock that cannot go back, so that a second run would start late and round differently.
  Timeline run(const PricedPlan& plan) override {
    check_no_host_copies(plan.plan());
    Execution execution(plan, gpus_);
    return from_bytes<Timeline>(run_in_child([&] {
      const auto simulator = make_simulator(precision_of(plan, options_.precision));
      return to_bytes(std::move(execution).run(*simulator, [&](Network::Ended ended) {
        return make_flow_network(*simulator, plan, options_, std::move(ended), watch(),
                                 make_simgrid_carrier(*simulator, plan.topology().gpu_count()));
      }));
    }));
  }

 private:
  GpuModels gpus_;
  FlowOptions options_;
};

bool has_connections(const FlowOptions& options) {
  return options.connections && !options.together && options.peers == 0;
}

HostsCompute hosts_of(const FlowOptions& options) {
  return has_connections(options) && options.connections->host ? HostsCompute::shared
                                                               : HostsCompute::alone;
}

NetworkOf network_with(const FlowOptions& options) {
  return [options](Events& events, const PricedPlan& plan, Network::Ended ended,
                   const SimulatedBackend::Watch& watch) -> std::unique_ptr<Network> {
    if (has_connections(options)) {
      check_no_host_copies(plan.plan());
      return make_connection_network(events, plan, *options.connections, std::move(ended));
    }
    return make_flow_network(events, plan, options, std::move(ended), watch,
                             make_max_min_carrier(events));
  };
}

}  // namespace

std::unique_ptr<SimulatedBackend> make_flow_backend(const Topology& topology, const GpuModels& gpus,
                                                    const FlowOptions& options) {
  return make_engine_backend(topology, gpus, network_with(options), flow_time, hosts_of(options));
}

std::unique_ptr<SimulatedBackend> make_simgrid_backend(const Topology& topology,
                                                       const GpuModels& gpus,
                                                       const FlowOptions& options) {
  return std::make_unique<SimgridBackend>(topology, gpus, options);
}

}  // namespace moesim
