// SPDX-License-Identifier: Apache-2.0
#include "sim/plan/simulate/execution.h"

#include <optional>
#include <utility>
#include <vector>

#include "sim/plan/simulate/slowdown.h"

namespace moesim {
namespace {

/// Leads what joins an exchange to the network, and what has ended back to the plan.
class Driver {
 public:
  Driver(const PricedPlan& plan, Progress& progress, Events& events, HostsCompute hosts)
      : plan_(plan), progress_(progress), events_(events), hosts_(hosts) {}

  void drive(Network& network, Slowdown* slowdown) {
    network_ = &network;
    if (network.takes_everyone()) {
      progress_.report_together();
      if (slowdown == nullptr || !slowdown->asks_for_each()) progress_.report_last();
    }
    slowdown_ = slowdown;
    hand_on();
    events_.run();
  }

  void end(OpId op, std::int32_t participant) {
    progress_.end(op, participant, events_.now());
    hand_on();
  }

 private:
  void hand_on() {
    // Its own list, because whoever ends meanwhile hands on, too.
    std::vector<Progress::Joined> all = std::exchange(joined_, {});
    progress_.take_joined(all);
    if (slowdown_ != nullptr) {
      progress_.take_computing(computing_);
      slowdown_->compute(computing_);
    }
    for (const Progress::Joined& joined : all) hand_on(joined);
    if (slowdown_ != nullptr) slowdown_->settle();
    joined_ = std::move(all);  // the memory of it
  }

  void hand_on(const Progress::Joined& joined) {
    const bool kernel = plan_.price_of(joined.op) == 0;
    if (slowdown_ != nullptr) {
      std::optional<Seconds> carried;
      if (!kernel && joined.all) carried = network_->carried_at(joined);
      slowdown_->join(joined, carried);
      if (carried) return;
    }
    if (!kernel) {
      network_->join(joined);
    } else if (hosts_ == HostsCompute::shared) {
      network_->compute(joined, progress_.duration(joined.op, joined.participant));
    }
  }

  const PricedPlan& plan_;
  Progress& progress_;
  Events& events_;
  HostsCompute hosts_;
  Network* network_ = nullptr;
  Slowdown* slowdown_ = nullptr;  // none if nothing slows anything
  std::vector<Progress::Joined> joined_;
  std::vector<Progress::Computing> computing_;
};

Progress::KernelEnds kernel_ends(const Plan& plan, const GpuModels& gpus, HostsCompute hosts,
                                 bool slowed) {
  if (slowed) return Slowdown::kernel_ends(plan, gpus);
  return hosts == HostsCompute::shared ? Progress::KernelEnds::by_call
                                       : Progress::KernelEnds::timed;
}

}  // namespace

Execution::Execution(const PricedPlan& plan, const GpuModels& gpus, HostsCompute hosts,
                     Progress::ExchangeEnds ends)
    : plan_(plan),
      gpus_(gpus),
      hosts_(hosts),
      slowed_(hosts == HostsCompute::alone && slows(plan.plan(), gpus)),
      progress_(plan.plan(), gpus, kernel_ends(plan.plan(), gpus, hosts, slowed_), ends) {}

Timeline Execution::run(Events& events, const MakeNetwork& make_network) && {
  Driver driver(plan_, progress_, events, hosts_);
  const Network::Ended end = [&](OpId op, std::int32_t who) { driver.end(op, who); };
  if (slowed_) {
    Slowdown slowdown(plan_, gpus_, events, progress_, end);
    driver.drive(*make_network([&](OpId op, std::int32_t who) { slowdown.carried(op, who); }),
                 &slowdown);
  } else {
    driver.drive(*make_network(end), nullptr);
  }
  return progress_.finish();
}

}  // namespace moesim
