// SPDX-License-Identifier: Apache-2.0
// One flow per pair of GPUs and equal-cost path, once both have joined; all in flight at once or in
// NCCL's order.
#include "sim/engine/flow_network.h"

#include <algorithm>
#include <boost/container/small_vector.hpp>
#include <cmath>
#include <map>
#include <span>
#include <unordered_map>
#include <utility>

#include "sim/engine/p2p_schedule.h"
#include "sim/engine/pair_paths.h"

namespace moesim {
namespace {

using Pair = PeerOrder::Pair;

class FlowNetwork : public Network {
 public:
  FlowNetwork(Events& events, const PricedPlan& plan, const FlowOptions& options, Ended ended,
              const SimulatedBackend::Watch& watch, std::unique_ptr<FlowCarrier> carrier)
      : events_(events),
        priced_(plan),
        topology_(plan.topology()),
        plan_(plan.plan()),
        options_(options),
        ended_(std::move(ended)),
        watch_(watch),
        carrier_(std::move(carrier)),
        parts_(topology_.links().size()),
        parts_used_(add_links()),
        paths_(plan_, topology_,
               [this](GpuId from, GpuId to, int place, std::span<const LinkId> links) {
                 carrier_->add_route(from, to, place, links);
                 if (parts_used_) add_slowed(links);
               }),
        pairs_(watch ? pairs_that_move(plan_) : 0) {}

  void join(const Progress::Joined& joined) override {
    const auto& gpus = plan_[joined.op].group;
    if (!options_.together) {
      join(joined.op, gpus[static_cast<std::size_t>(joined.participant)], joined.at);
    } else if (joined.all) {
      for (const GpuId gpu : gpus) join(joined.op, gpu, *joined.all);
    }
  }

 private:
  struct OnLink {
    double part;
    int flows = 0;  // under way
  };
  /// An exchange that somebody has joined and that has not ended for all.
  struct Active {
    GroupTraffic traffic;
    const PricedExchange* price;
    std::unique_ptr<PeerOrder> order;
    std::size_t participants;                          // for whom it has not ended
    std::unordered_map<std::uint32_t, OnLink> slowed;  // the links it loads that have parts
    std::vector<Pair> beginning;                       // at this time
  };
  /// What a link yields to the exchanges whose data it carries now, as parts of its bandwidth
  /// (LinkUse::part). They share its time evenly, as at `port`, so that it yields the mean.
  struct Parts {
    bool used = false;  // some exchange gets less than all of it
    double sum = 0;
    int exchanges = 0;
    double mean() const { return exchanges == 0 ? 1 : sum / exchanges; }
  };
  /// Pairs whose data a sender sends at once.
  struct Sending {
    struct OfPair {
      Pair pair;
      int left;  // flows under way
    };
    std::vector<OfPair> pairs;
    std::vector<std::uint32_t> pair_of;  // [flow]
    std::vector<int> route_of;           // the same
  };

  /// Returns whether some exchange gets less than all of a link.
  bool find_slowed() {
    bool any = false;
    for (OpId id(0); id.index() < plan_.ops.size(); ++id.value) {
      if (!priced_[id]) continue;
      for (const LinkUse& use : priced_[id]->loads.uses) {
        Parts& parts = parts_[use.link.index()];
        parts.used = parts.used || use.part != 1;
        any = any || parts.used;
      }
    }
    return any;
  }

  /// Returns find_slowed().
  bool add_links() {
    const bool slowed = find_slowed();
    for (std::size_t l = 0; l < parts_.size(); ++l) {
      const Link& link = topology_.links()[l];
      if (link.crowded.pairs == 0 && !parts_[l].used) {
        carrier_->add_link(link.bandwidth);
      } else {
        carrier_->add_link([&link, &part = parts_[l]](int flows) {
          return BytesPerSecond(link.bandwidth_of(flows).value * part.mean());
        });
      }
    }
    return slowed;
  }

  /// Of the next route.
  void add_slowed(std::span<const LinkId> links) {
    auto& slowed = slowed_of_.emplace_back();
    for (const LinkId link : links) {
      if (parts_[link.index()].used) slowed.push_back(static_cast<std::uint32_t>(link.value));
    }
  }

  /// Links yield to this exchange, while its data moves over them, what they do for its bytes.
  void enter_links(Active& exchange, int route) {
    if (!parts_used_ || slowed_of_[static_cast<std::size_t>(route)].empty()) return;
    if (exchange.slowed.empty()) {
      for (const LinkUse& use : exchange.price->loads.uses) {
        if (!parts_[use.link.index()].used) continue;
        exchange.slowed.emplace(static_cast<std::uint32_t>(use.link.value), OnLink{use.part});
      }
    }
    for (const std::uint32_t link : slowed_of_[static_cast<std::size_t>(route)]) {
      OnLink& on = exchange.slowed.at(link);
      if (on.flows++ > 0) continue;
      parts_[link].sum += on.part;
      ++parts_[link].exchanges;
    }
  }

  void leave_links(Active& exchange, int route) {
    if (!parts_used_) return;
    for (const std::uint32_t link : slowed_of_[static_cast<std::size_t>(route)]) {
      OnLink& on = exchange.slowed.at(link);
      if (--on.flows > 0) continue;
      // No rest of a sum may stay behind.
      if (--parts_[link].exchanges == 0) parts_[link].sum = on.part;
      parts_[link].sum -= on.part;
      carrier_->change(LinkId(std::int64_t{link}));
    }
  }

  void join(OpId op, GpuId gpu, Seconds at) {
    events_.call(at + active(op).price->alone.overhead, [this, op, gpu] {
      PeerOrder& order = *active_.at(op).order;
      start(op, order.join(gpu));
      if (order.done(gpu)) end(op, gpu);
    });
  }

  Active& active(OpId op) {
    const auto known = active_.find(op);
    if (known != active_.end()) return known->second;
    const GroupTraffic traffic = plan_[op].traffic();
    std::vector<int> nodes;
    for (const GpuId gpu : traffic.members) nodes.push_back(topology_.host_of(gpu));
    Active fresh{traffic,
                 priced_[op].get(),
                 std::make_unique<PeerOrder>(traffic, nodes, options_.peers),
                 traffic.members.size(),
                 {},
                 {}};
    return active_.emplace(op, std::move(fresh)).first->second;
  }

  /// Sends the data of some pairs once all have joined that do so at this time: flows of a sender
  /// that begin one after the other are near each other in memory, by which rates take half the
  /// time.
  void start(OpId op, const std::vector<Pair>& pairs) {
    if (pairs.empty()) return;
    std::vector<Pair>& beginning = active_.at(op).beginning;
    const bool first = beginning.empty();
    beginning.insert(beginning.end(), pairs.begin(), pairs.end());
    if (!first) return;
    events_.call(events_.now(), [this, op] {
      std::vector<Pair> all = std::exchange(active_.at(op).beginning, {});
      std::ranges::sort(all);
      for (auto from = all.begin(), to = from; from != all.end(); from = to) {
        to = std::find_if(from, all.end(), [&](const Pair& p) { return p.first != from->first; });
        send(op, std::span<const Pair>(from, to));
      }
    });
  }

  /// Sends the data of some pairs, and after each of them what it held up.
  void send(OpId op, std::span<const Pair> pairs) {
    Active& exchange = active_.at(op);
    const auto sending = std::make_shared<Sending>();
    struct Started {
      FlowCarrier::Flow flow;
      std::uint32_t pair;
    };
    std::vector<Started> started;
    started.reserve(pairs.size());
    sending->pairs.reserve(pairs.size());
    for (const Pair& pair : pairs) {
      const std::size_t before = started.size();
      const auto place = static_cast<std::uint32_t>(sending->pairs.size());
      for_each_flow(pair, exchange, [&](const FlowCarrier::Flow& flow) {
        started.push_back({flow, place});
      });
      sending->pairs.push_back({pair, static_cast<int>(started.size() - before)});
    }
    std::ranges::stable_sort(started, {}, [](const Started& s) { return s.flow.start; });
    std::vector<FlowCarrier::Flow> flows;
    flows.reserve(started.size());
    sending->pair_of.reserve(started.size());
    sending->route_of.reserve(started.size());
    for (const Started& s : started) {
      flows.push_back(s.flow);
      sending->pair_of.push_back(s.pair);
      sending->route_of.push_back(s.flow.route);
      enter_links(exchange, s.flow.route);
    }
    carrier_->send(std::move(flows), exchange.price->alone.transfer * options_.precision,
                   [this, op, sending](std::size_t flow) {
                     leave_links(active_.at(op), sending->route_of[flow]);
                     Sending::OfPair& of = sending->pairs[sending->pair_of[flow]];
                     if (--of.left == 0) end(op, of.pair);
                   });
  }

  void end(OpId op, const Pair& pair) {
    if (pairs_ > 0 && (++pairs_ended_ & 1023) == 0) {
      watch_(static_cast<double>(pairs_ended_) / static_cast<double>(pairs_));
    }
    PeerOrder& order = *active_.at(op).order;
    const std::vector<Pair> next = order.end(pair);
    const bool sender_done = order.done(pair.first), receiver_done = order.done(pair.second);
    start(op, next);
    if (sender_done) end(op, pair.first);
    if (receiver_done && pair.second != pair.first) end(op, pair.second);
  }

  void end(OpId op, GpuId gpu) {
    const bool last = --active_.at(op).participants == 0;
    if (last) active_.erase(op);
    if (options_.together) {
      if (last) ended_(op, everyone);
      return;
    }
    ended_(op, static_cast<std::int32_t>(plan_[op].group.member(gpu)));
  }

  /// One for each way of the pair, after the latency of that way in all rounds.
  template <class Visit>
  void for_each_flow(const Pair& pair, const Active& exchange, Visit visit) const {
    const Seconds longest = exchange.price->loads.latency;
    const Bytes total = exchange.traffic.at(pair.first, pair.second);
    double share = 0;
    std::int64_t sent = 0;
    std::size_t route = paths_.first(exchange.traffic, pair.first, pair.second);
    for (const PairPaths::Way& way : paths_.of(route)) {
      share += way.share;
      const std::int64_t bytes = std::llround(static_cast<double>(total.value) * share) - sent;
      sent += bytes;
      const Seconds waits = std::min(way.latency * exchange.traffic.rounds, longest);
      const Seconds start = events_.now() + waits;
      if (bytes > 0) visit(FlowCarrier::Flow{static_cast<int>(route), Bytes(bytes), start});
      ++route;
    }
  }

  Events& events_;
  const PricedPlan& priced_;
  const Topology& topology_;
  const Plan& plan_;
  FlowOptions options_;
  Ended ended_;
  SimulatedBackend::Watch watch_;
  std::unique_ptr<FlowCarrier> carrier_;
  std::vector<Parts> parts_;  // per link
  bool parts_used_;           // of some link
  std::vector<boost::container::small_vector<std::uint32_t, 4>>
      slowed_of_;  // [route] its links with parts
  PairPaths paths_;
  std::int64_t pairs_, pairs_ended_ = 0;  // 0: nobody watches
  std::map<OpId, Active> active_;
};

}  // namespace

std::unique_ptr<Network> make_flow_network(Events& events, const PricedPlan& plan,
                                           const FlowOptions& options, Network::Ended ended,
                                           const SimulatedBackend::Watch& watch,
                                           std::unique_ptr<FlowCarrier> carrier) {
  return std::make_unique<FlowNetwork>(events, plan, options, std::move(ended), watch,
                                       std::move(carrier));
}

}  // namespace moesim
