// SPDX-License-Identifier: Apache-2.0
// One communication per pair of GPUs and equal-cost path, once both have joined; all in flight at
// once or in NCCL's order.
#include "sim/engine/flow_network.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <utility>

#include "sim/engine/p2p_schedule.h"

namespace moesim {
namespace {

using Pair = PeerOrder::Pair;

/// A path with its latency, the sum over its links.
struct Way {
  std::vector<LinkId> links;
  double share;
  Seconds latency;
};

class FlowNetwork : public Network {
 public:
  FlowNetwork(Simulator& simulator, const PricedPlan& plan, const FlowOptions& options, Ended ended)
      : simulator_(simulator),
        priced_(plan),
        topology_(plan.topology()),
        plan_(plan.plan()),
        options_(options),
        ended_(std::move(ended)) {
    parts_.resize(topology_.links().size());
    for (std::size_t l = 0; l < parts_.size(); ++l) {
      const Link& link = topology_.links()[l];
      tables_ = tables_ || link.table;
      if (link.crowded.pairs == 0 && !link.table) {
        simulator_.add_link(link.bandwidth);
      } else {
        simulator_.add_link([&link, &part = parts_[l]](int flows) {
          return BytesPerSecond(link.bandwidth_of(flows).value * part.mean());
        });
      }
    }
    std::size_t planes = 0;
    for (const Op& op : plan_.ops) {
      if (op.exchange()) {
        planes = std::max(planes, find_ways(op.traffic()));
      }
    }
    simulator_.add_planes(static_cast<int>(planes), topology_.gpu_count());
    for (const auto& [pair, ways] : ways_) {
      for (std::size_t i = 0; i < ways.size(); ++i) {
        simulator_.add_route(static_cast<int>(i), pair.first, pair.second, ways[i].links);
      }
    }
  }

  void join(const Progress::Joined& joined) override {
    const auto& gpus = plan_[joined.op].group;
    if (!options_.together) {
      join(joined.op, gpus[static_cast<std::size_t>(joined.participant)], joined.at);
    } else if (joined.all) {
      for (const GpuId gpu : gpus) join(joined.op, gpu, *joined.all);
    }
  }

 private:
  /// An exchange that somebody has joined and that has not ended for all.
  struct Active {
    GroupTraffic traffic;
    const PricedExchange* price;
    std::unique_ptr<PeerOrder> order;
    std::size_t participants;                           // for whom it has not ended
    std::vector<std::pair<std::size_t, double>> parts;  // of the links with a table it loads
    std::vector<Pair> beginning;                        // at this time
    bool slows = false;
  };
  /// What a link with a table yields to the exchanges that load it, as parts of its bandwidth. They
  /// share its time evenly, as at `port`, so that it yields the mean.
  struct Parts {
    double sum = 0;
    int exchanges = 0;
    double mean() const { return exchanges == 0 ? 1 : sum / exchanges; }
  };

  /// Links with a table yield to this exchange, once its data moves, what they do for its bytes.
  void slow_links(Active& exchange) {
    if (!tables_ || std::exchange(exchange.slows, true)) return;
    for (const LinkUse& use : exchange.price->loads.uses) {
      const std::size_t l = use.link.index();
      const Link& link = topology_.links()[l];
      if (!link.table) continue;
      exchange.parts.emplace_back(l, link.part_of(use.bytes));
      parts_[l].sum += exchange.parts.back().second;
      ++parts_[l].exchanges;
    }
  }

  void join(OpId op, GpuId gpu, Seconds at) {
    const Seconds begin = at + active(op).price->alone.overhead;
    simulator_.spawn([this, op, gpu, begin] {
      simulator_.sleep_until(begin);
      PeerOrder& order = *active_.at(op).order;
      const std::vector<Pair> pairs = order.join(gpu);
      start(op, pairs);
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
  /// that begin one after the other are near each other in memory, by which SimGrid's solver takes
  /// half the time.
  void start(OpId op, const std::vector<Pair>& pairs) {
    if (pairs.empty()) return;
    std::vector<Pair>& beginning = active_.at(op).beginning;
    const bool first = beginning.empty();
    beginning.insert(beginning.end(), pairs.begin(), pairs.end());
    if (first) {
      simulator_.spawn([this, op] {
        std::map<GpuId, std::vector<Pair>> by_sender;
        for (const Pair& pair : std::exchange(active_.at(op).beginning, {})) {
          by_sender[pair.first].push_back(pair);
        }
        for (auto& [sender, of_sender] : by_sender) {
          std::ranges::sort(of_sender);
          simulator_.spawn([this, op, part = std::move(of_sender)] { send(op, part); });
        }
      });
    }
  }

  /// Sends the data of some pairs, and after each of them what it held up.
  void send(OpId op, const std::vector<Pair>& pairs) {
    Active& exchange = active_.at(op);
    slow_links(exchange);
    std::vector<Simulator::Flow> flows;
    std::map<Pair, int> left;  // flows of a pair
    for (const Pair& pair : pairs) {
      left[pair] = add_flows(pair, exchange.traffic, flows);
    }
    std::stable_sort(flows.begin(), flows.end(),
                     [](const auto& a, const auto& b) { return a.start < b.start; });
    simulator_.send(flows, [&](std::size_t i) {
      const Pair pair(flows[i].from, flows[i].to);
      if (--left.at(pair) == 0) end(op, pair);
    });
  }

  void end(OpId op, const Pair& pair) {
    PeerOrder& order = *active_.at(op).order;
    const std::vector<Pair> next = order.end(pair);
    const bool sender_done = order.done(pair.first), receiver_done = order.done(pair.second);
    start(op, next);
    if (sender_done) end(op, pair.first);
    if (receiver_done) end(op, pair.second);
  }

  void end(OpId op, GpuId gpu) {
    const bool last = --active_.at(op).participants == 0;
    if (last) {
      free_links(active_.at(op));
      active_.erase(op);
    }
    if (options_.together) {
      if (last) ended_(op, everyone);
      return;
    }
    const auto& gpus = plan_[op].group;
    const auto place = std::ranges::lower_bound(gpus, gpu) - gpus.begin();
    ended_(op, static_cast<std::int32_t>(place));
  }

  void free_links(const Active& exchange) {
    for (const auto& [link, part] : exchange.parts) {
      // No rest of a sum may stay behind.
      if (--parts_[link].exchanges == 0) parts_[link].sum = part;
      parts_[link].sum -= part;
    }
  }

  /// Looks up the ways of every pair with traffic; returns the largest number of ways of a pair.
  std::size_t find_ways(const GroupTraffic& traffic) {
    std::size_t most = 0;
    traffic.for_each([&](GpuId from, GpuId to, Bytes) {
      if (to == from) return;
      auto& ways = ways_[{from, to}];
      if (ways.empty()) {
        for (Path& path : topology_.paths(from, to)) {
          Seconds latency(0);
          for (LinkId link : path.links) latency += topology_.links()[link.index()].latency;
          ways.push_back({std::move(path.links), path.share, latency});
        }
      }
      most = std::max(most, ways.size());
    });
    return most;
  }

  /// A flow for each way of the pair, after the latency of that way in all rounds; returns how
  /// many.
  int add_flows(const Pair& pair, const GroupTraffic& traffic,
                std::vector<Simulator::Flow>& flows) const {
    const Bytes total = traffic.at(pair.first, pair.second);
    double share = 0;
    std::int64_t sent = 0;
    int count = 0;
    const auto& ways = ways_.at(pair);
    for (std::size_t i = 0; i < ways.size(); ++i) {
      share += ways[i].share;
      const std::int64_t bytes = std::llround(static_cast<double>(total.value) * share) - sent;
      sent += bytes;
      if (bytes == 0) continue;
      flows.push_back({static_cast<int>(i), pair.first, pair.second, Bytes(bytes),
                       simulator_.now() + ways[i].latency * traffic.rounds});
      ++count;
    }
    return count;
  }

  Simulator& simulator_;
  const PricedPlan& priced_;
  const Topology& topology_;
  const Plan& plan_;
  FlowOptions options_;
  Ended ended_;
  std::map<Pair, std::vector<Way>> ways_;
  std::map<OpId, Active> active_;
  std::vector<Parts> parts_;  // per link
  bool tables_ = false;       // some link has one
};

}  // namespace

Seconds flow_precision(const PricedPlan& plan, double part) {
  // Each completion solves the max-min system of all flows, so that taking those together that are
  // almost simultaneous saves most of the time. docs/results/speed.md has time against error.
  constexpr Seconds least(1e-9);
  Seconds shortest(std::numeric_limits<double>::infinity());
  for (std::size_t i = 0; i < plan.plan().ops.size(); ++i) {
    const auto& price = plan[OpId(static_cast<std::int64_t>(i))];
    if (price && !price->loads.uses.empty()) shortest = std::min(shortest, price->alone.transfer);
  }
  return shortest.value < std::numeric_limits<double>::infinity() ? std::max(least, shortest * part)
                                                                  : least;
}

std::unique_ptr<Network> make_flow_network(Simulator& simulator, const PricedPlan& plan,
                                           const FlowOptions& options, Network::Ended ended) {
  return std::make_unique<FlowNetwork>(simulator, plan, options, std::move(ended));
}

}  // namespace moesim
