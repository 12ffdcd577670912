// SPDX-License-Identifier: Apache-2.0
// Simulates the exchanges of a plan; all other times follow from theirs.
#include "sim/engine/simgrid_backend.h"

#include <algorithm>
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

/// An exchange and when it ended for a participant or for everyone, as the simulating process tells
/// it.
struct Ended {
  OpId op;
  Seconds at;
  std::int32_t participant;
};

/// One run of one plan, in a process of its own.
class Simulation {
 public:
  Simulation(const PricedPlan& plan, const SimgridOptions& options, Progress& progress)
      : progress_(progress),
        simulator_(options.fidelity == Fidelity::port
                       ? port_precision
                       : flow_precision(plan, options.flow_precision)),
        network_(make_network(plan, options)) {}

  std::vector<Ended> run() {
    join();
    simulator_.run();
    return std::move(ended_);
  }

 private:
  std::unique_ptr<Network> make_network(const PricedPlan& plan, const SimgridOptions& options) {
    const auto ended = [this](OpId op, std::int32_t participant) { end(op, participant); };
    return options.fidelity == Fidelity::port
               ? make_port_network(simulator_, plan, options.prune, ended)
               : make_flow_network(simulator_, plan, {options.flow_peers, options.flow_together},
                                   ended);
  }

  void join() {
    for (const Progress::Joined& joined : progress_.take_joined()) network_->join(joined);
  }

  void end(OpId op, std::int32_t participant) {
    ended_.push_back({op, simulator_.now(), participant});
    if (participant == Network::everyone) {
      progress_.end(op, simulator_.now());
    } else {
      progress_.end(op, participant, simulator_.now());
    }
    join();
  }

  Progress& progress_;
  Simulator simulator_;
  std::unique_ptr<Network> network_;
  std::vector<Ended> ended_;
};

class SimgridBackend : public SimulatedBackend {
 public:
  SimgridBackend(const Topology& topology, const GpuModels& gpus, const SimgridOptions& options)
      : SimulatedBackend(topology), gpus_(gpus), options_(options) {}

  Timeline run(const PricedPlan& plan) override {
    return with_overlap(plan.plan(), gpus_,
                        [&](const Delays& delays) { return run(plan, delays); });
  }

 private:
  Timeline run(const PricedPlan& plan, const Delays& delays) const {
    Progress progress(plan.plan(), gpus_, delays);
    const auto ends = simulate(plan, progress);
    for (auto joined = progress.take_joined(); !joined.empty(); joined = progress.take_joined()) {
      for (const auto& [op, participant, start, all] : joined) {
        const auto& at = ends[op.index()][static_cast<std::size_t>(participant)];
        if (at) progress.end(op, participant, *at);
      }
    }
    return progress.finish();
  }

  using Ends = std::vector<std::vector<std::optional<Seconds>>>;  // [op][participant], of exchanges

  /// When each exchange ends. Every run is a process of its own: SimGrid has one engine per process
  /// and its clock cannot go back, so that a second run would start late and round differently.
  /// The child works on a copy of `progress`; the ends are all that the parent needs to repeat it.
  Ends simulate(const PricedPlan& priced, Progress& progress) const {
    const Plan& plan = priced.plan();
    const std::string data = run_in_child([&] {
      const auto ended = Simulation(priced, options_, progress).run();
      return std::string(reinterpret_cast<const char*>(ended.data()), ended.size() * sizeof(Ended));
    });
    Ends ends(plan.ops.size());
    for (std::size_t op = 0; op < plan.ops.size(); ++op) {
      if (const Exchange* exchange = plan.ops[op].exchange()) {
        ends[op].resize(exchange->participants.size());
      }
    }
    for (std::size_t at = 0; at < data.size(); at += sizeof(Ended)) {
      Ended one;
      std::memcpy(&one, data.data() + at, sizeof one);
      auto& of_op = ends[one.op.index()];
      if (one.participant == Network::everyone) {
        std::ranges::fill(of_op, one.at);
      } else {
        of_op[static_cast<std::size_t>(one.participant)] = one.at;
      }
    }
    return ends;
  }

  GpuModels gpus_;
  SimgridOptions options_;
};

}  // namespace

std::unique_ptr<SimulatedBackend> make_simgrid_backend(const Topology& topology,
                                                       const GpuModels& gpus,
                                                       const SimgridOptions& options) {
  return std::make_unique<SimgridBackend>(topology, gpus, options);
}

}  // namespace moesim
