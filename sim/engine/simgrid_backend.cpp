// SPDX-License-Identifier: Apache-2.0
// Simulates the exchanges of a plan; all other times follow from theirs.
#include "sim/engine/simgrid_backend.h"

#include <cstring>
#include <optional>
#include <utility>

#include "sim/engine/child_process.h"
#include "sim/engine/network.h"
#include "sim/engine/simulator.h"
#include "sim/plan/progress.h"

namespace moesim {
namespace {

using Fidelity = SimgridOptions::Fidelity;

// At `port` an event costs little, so that only rounding is allowed for.
constexpr Seconds port_precision(1e-12);

/// An exchange and when it ended, as the simulating process tells it.
struct Ended {
  OpId op;
  Seconds at;
};

/// One run of one plan, in a process of its own.
class Simulation {
 public:
  Simulation(const Topology& topology, const Plan& plan, const SimgridOptions& options,
             Progress& progress)
      : plan_(plan),
        progress_(progress),
        simulator_(options.fidelity == Fidelity::port
                       ? port_precision
                       : flow_precision(topology, plan, options.flow_precision)),
        network_(options.fidelity == Fidelity::port
                     ? make_port_network(simulator_, topology, plan, options.prune)
                     : make_flow_network(simulator_, topology, plan, options.flow_peers)) {}

  std::vector<Ended> run() {
    launch_ready();
    simulator_.run();
    return std::move(ended_);
  }

 private:
  void launch_ready() {
    for (const auto& [op, start] : progress_.take_ready()) {
      network_->launch(op, plan_[op].exchange()->traffic, start, [this, op = op] { end(op); });
    }
  }

  void end(OpId op) {
    ended_.push_back({op, simulator_.now()});
    progress_.end(op, simulator_.now());
    launch_ready();
  }

  const Plan& plan_;
  Progress& progress_;
  Simulator simulator_;
  std::unique_ptr<Network> network_;
  std::vector<Ended> ended_;
};

class SimgridBackend : public Backend {
 public:
  SimgridBackend(const Topology& topology, const GpuModels& gpus, const SimgridOptions& options)
      : topology_(topology), gpus_(gpus), options_(options) {}

  Timeline run(const Plan& plan) override {
    return with_overlap(plan, gpus_, [&](const Delays& delays) { return run(plan, delays); });
  }

 private:
  Timeline run(const Plan& plan, const Delays& delays) const {
    Progress progress(plan, gpus_, delays);
    const auto ends = simulate(plan, progress);
    for (auto ready = progress.take_ready(); !ready.empty(); ready = progress.take_ready()) {
      for (const auto& exchange : ready) {
        if (const auto& at = ends[exchange.op.index()]) progress.end(exchange.op, *at);
      }
    }
    return progress.finish();
  }

  /// When each exchange ends. Every run is a process of its own: SimGrid has one engine per process
  /// and its clock cannot go back, so that a second run would start late and round differently.
  /// The child works on a copy of `progress`; the ends are all that the parent needs to repeat it.
  std::vector<std::optional<Seconds>> simulate(const Plan& plan, Progress& progress) const {
    const std::string data = run_in_child([&] {
      const auto ended = Simulation(topology_, plan, options_, progress).run();
      return std::string(reinterpret_cast<const char*>(ended.data()), ended.size() * sizeof(Ended));
    });
    std::vector<std::optional<Seconds>> ends(plan.ops.size());
    for (std::size_t at = 0; at < data.size(); at += sizeof(Ended)) {
      Ended one;
      std::memcpy(&one, data.data() + at, sizeof one);
      ends[one.op.index()] = one.at;
    }
    return ends;
  }

  const Topology& topology_;
  GpuModels gpus_;
  SimgridOptions options_;
};

}  // namespace

std::unique_ptr<Backend> make_simgrid_backend(const Topology& topology, const GpuModels& gpus,
                                              const SimgridOptions& options) {
  return std::make_unique<SimgridBackend>(topology, gpus, options);
}

}  // namespace moesim
