// SPDX-License-Identifier: Apache-2.0
// Fidelity `port`: links serve exchanges at equal shares; an exchange ends with its last link.
//
// A link that one exchange uses alone drains at full bandwidth, so its remaining work is known at
// any time without simulating it. Only the link that drains last needs an activity, until another
// exchange loads a link of this one: then both get an activity there, with the work that is left.
#include <algorithm>
#include <map>
#include <utility>

#include "sim/engine/network.h"

namespace moesim {
namespace {

// A finished activity is searched in its actor's list, so that many per actor cost quadratic time;
// an actor costs as much as a few activities. From 16 to 64 per actor it makes no difference.
constexpr std::size_t jobs_per_actor = 32;

/// Each exchange shares a GPU and a lane with the one before, so that no two overlap.
bool is_chain(const Plan& plan) {
  const Op* last = nullptr;
  for (const Op& op : plan.ops) {
    const Exchange* exchange = op.exchange();
    if (exchange == nullptr) continue;
    if (last != nullptr) {
      const auto& before = last->exchange()->participants;
      const bool common = std::any_of(
          exchange->participants.begin(), exchange->participants.end(),
          [&](GpuId gpu) { return std::binary_search(before.begin(), before.end(), gpu); });
      if (!common || last->lane != op.lane) return false;
    }
    last = &op;
  }
  return true;
}

class PortNetwork : public Network {
 public:
  PortNetwork(Simulator& simulator, const PricedPlan& plan, bool prune, Ended ended)
      : simulator_(simulator),
        plan_(plan),
        ended_(std::move(ended)),
        prune_(prune),
        one_server_(prune && is_chain(plan.plan())),
        uses_(plan.topology().links().size()) {
    simulator_.add_servers(one_server_ ? 1 : static_cast<int>(uses_.size()));
  }

  void join(const Progress::Joined& joined) override {
    if (!joined.all) return;
    Active& exchange = active_[joined.op];
    exchange.op = joined.op;
    exchange.price = plan_[joined.op].get();
    exchange.begin = *joined.all + exchange.price->alone.overhead + exchange.price->alone.latency;
    simulator_.spawn([this, &exchange] {
      simulator_.sleep_until(exchange.begin);
      transfer(exchange);
    });
  }

 private:
  /// An exchange between its launch and its end.
  struct Active {
    OpId op;
    const PricedExchange* price;
    Seconds begin;                     // when its bytes start to move
    std::vector<std::size_t> links;    // those with an activity
    std::vector<std::size_t> alone;    // those that it began to use without one
    std::vector<Simulator::Job> jobs;  // not yet given to actors
    int actors = 0;                    // that serve its jobs
  };
  /// Who uses a link: one exchange alone without an activity, or some with one each.
  struct Use {
    Active* alone = nullptr;
    int activities = 0;
  };

  void add_job(Active& exchange, std::size_t link, Seconds work) {
    ++uses_[link].activities;
    exchange.links.push_back(link);
    exchange.jobs.push_back({one_server_ ? 0 : static_cast<int>(link), work});
  }

  /// Gives the exchange that has used a link alone an activity for what is left, if anything is.
  void share(std::size_t link, Seconds now, std::vector<Active*>& starting) {
    Active& other = *std::exchange(uses_[link].alone, nullptr);
    const Seconds work = other.price->loads.on(LinkId(static_cast<std::int64_t>(link))).time;
    const Seconds left = work - (now - other.begin);
    if (left <= Seconds(0)) return;
    if (other.jobs.empty()) starting.push_back(&other);
    add_job(other, link, left);
  }

  /// Starts the activities of an exchange whose bytes begin to move, and those it makes necessary.
  void transfer(Active& exchange) {
    std::vector<Active*> starting = {&exchange};
    const Seconds now = simulator_.now();
    const LinkUse* busiest = nullptr;  // of the links it has alone
    for (const LinkUse& use : exchange.price->loads.uses) {
      const std::size_t link = use.link.index();
      if (uses_[link].alone != nullptr) share(link, now, starting);
      if (!prune_ || uses_[link].activities > 0) {
        add_job(exchange, link, use.time);
        continue;
      }
      uses_[link].alone = &exchange;
      exchange.alone.push_back(link);
      if (busiest == nullptr || use.time > busiest->time) busiest = &use;
    }
    if (busiest != nullptr) {
      uses_[busiest->link.index()].alone = nullptr;
      add_job(exchange, busiest->link.index(), busiest->time);
    }
    if (exchange.jobs.empty()) return end(exchange);
    serve(starting);
  }

  void serve(const std::vector<Active*>& exchanges) {
    // Everything is counted before the first actor is spawned, since spawning lets others run.
    std::vector<std::pair<Active*, std::vector<Simulator::Job>>> batches;
    for (Active* exchange : exchanges) {
      const auto jobs = std::exchange(exchange->jobs, {});
      for (std::size_t i = 0; i < jobs.size(); i += jobs_per_actor) {
        const auto first = jobs.begin() + static_cast<std::ptrdiff_t>(i);
        const auto count = std::min(jobs_per_actor, jobs.size() - i);
        batches.push_back({exchange, {first, first + static_cast<std::ptrdiff_t>(count)}});
        ++exchange->actors;
      }
    }
    for (auto& [exchange, jobs] : batches) {
      simulator_.spawn([this, exchange = exchange, jobs = std::move(jobs)] {
        simulator_.serve(jobs);
        if (--exchange->actors == 0) end(*exchange);
      });
    }
  }

  void end(Active& exchange) {
    for (std::size_t link : exchange.links) --uses_[link].activities;
    for (std::size_t link : exchange.alone) {
      if (uses_[link].alone == &exchange) uses_[link].alone = nullptr;
    }
    const OpId op = exchange.op;
    active_.erase(op);
    ended_(op, everyone);
  }

  Simulator& simulator_;
  const PricedPlan& plan_;
  Ended ended_;
  bool prune_;
  bool one_server_;        // exchanges never overlap and each has one activity
  std::vector<Use> uses_;  // per link
  std::map<OpId, Active> active_;
};

}  // namespace

std::unique_ptr<Network> make_port_network(Simulator& simulator, const PricedPlan& plan, bool prune,
                                           Network::Ended ended) {
  return std::make_unique<PortNetwork>(simulator, plan, prune, std::move(ended));
}

}  // namespace moesim
