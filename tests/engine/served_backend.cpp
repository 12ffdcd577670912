// SPDX-License-Identifier: Apache-2.0
// One actor per event and per exchange; SimGrid's clock orders all of them.
#include "tests/engine/served_backend.h"

#include <string>
#include <utility>
#include <vector>

#include "sim/base/wire.h"
#include "sim/engine/child_process.h"
#include "sim/engine/simgrid_api.h"
#include "sim/plan/simulate/execution.h"

namespace moesim::test {
namespace {

namespace s4u = simgrid::s4u;

/// SimGrid's clock and actors as events, with a host of speed 1 per link.
class ServedEvents : public Events {
 public:
  explicit ServedEvents(std::size_t links) {
    // SimGrid's stacks of 8 MiB are filled if malloc is set to, an actor for every event.
    std::vector<std::string> args = {"served", "--log=root.thresh:critical",
                                     "--cfg=contexts/factory:raw", "--cfg=contexts/stack-size:256",
                                     std::string(simgrid_api::precision_flag) + "1e-12"};
    std::vector<char*> argv;
    for (std::string& arg : args) argv.push_back(arg.data());
    argv.push_back(nullptr);
    int argc = static_cast<int>(args.size());
    engine_ = std::make_unique<s4u::Engine>(&argc, argv.data());
    s4u::NetZone* root = simgrid_api::cluster_zone(*engine_);
    home_ = simgrid_api::add_host(*root, "home");
    for (std::size_t i = 0; i < links; ++i) {
      links_.push_back(simgrid_api::add_host(*root, std::to_string(i)));
    }
  }

  Seconds now() const override { return Seconds(s4u::Engine::get_clock()); }
  void call(Seconds time, std::function<void()> function) override {
    simgrid_api::add_actor("event", home_, [time, function = std::move(function)] {
      s4u::this_actor::sleep_until(time.value);
      function();
    });
  }
  void run() override { engine_->run(); }

  /// Inside an event: returns when all links have served their part.
  void serve(const std::vector<LinkUse>& uses) const {
    std::vector<s4u::ExecPtr> running;
    for (const LinkUse& use : uses) {
      auto exec = s4u::Exec::init();
      exec->set_host(links_[use.link.index()])->set_flops_amount(use.time.value);
      exec->start();
      running.push_back(std::move(exec));
    }
    for (const auto& exec : running) exec->wait();
  }

 private:
  std::unique_ptr<s4u::Engine> engine_;
  s4u::Host* home_;
  std::vector<s4u::Host*> links_;
};

class ServedNetwork : public Network {
 public:
  ServedNetwork(ServedEvents& events, const PricedPlan& plan, Ended ended)
      : events_(events), plan_(plan), ended_(std::move(ended)) {}

  void join(const Progress::Joined& joined) override {
    if (!joined.all) return;
    const PricedExchange& exchange = *plan_[joined.op];
    events_.call(*joined.all + exchange.start(), [this, op = joined.op, &exchange] {
      events_.serve(exchange.loads.uses);
      ended_(op, everyone);
    });
  }

 private:
  ServedEvents& events_;
  const PricedPlan& plan_;
  Ended ended_;
};

class ServedBackend : public SimulatedBackend {
 public:
  ServedBackend(const Topology& topology, GpuModels gpus)
      : SimulatedBackend(topology), gpus_(std::move(gpus)) {}

  Timeline run(const PricedPlan& plan) override {
    Execution execution(plan, gpus_);
    return from_bytes<Timeline>(run_in_child([&] {
      ServedEvents events(plan.topology().links().size());
      return to_bytes(std::move(execution).run(events, [&](Network::Ended ended) {
        return std::make_unique<ServedNetwork>(events, plan, std::move(ended));
      }));
    }));
  }

 private:
  GpuModels gpus_;
};

}  // namespace

std::unique_ptr<SimulatedBackend> make_served_backend(const Topology& topology,
                                                      const GpuModels& gpus) {
  return std::make_unique<ServedBackend>(topology, gpus);
}

}  // namespace moesim::test
