// SPDX-License-Identifier: Apache-2.0
// Fidelity `flow`: one communication per pair of GPUs and equal-cost path, all in flight at once or
// in NCCL's order.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <utility>

#include "sim/engine/network.h"
#include "sim/engine/p2p_schedule.h"
#include "sim/plan/exchange_time.h"

namespace moesim {
namespace {

using Pair = std::pair<GpuId, GpuId>;

/// A path with its latency, the sum over its links.
struct Way {
  std::vector<LinkId> links;
  double share;
  Seconds latency;
};

class FlowNetwork : public Network {
 public:
  FlowNetwork(Simulator& simulator, const Topology& topology, const Plan& plan, int peers)
      : simulator_(simulator), topology_(topology), plan_(plan), peers_(peers) {
    parts_.resize(topology.links().size());
    for (std::size_t l = 0; l < parts_.size(); ++l) {
      const Link& link = topology.links()[l];
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
    for (const Op& op : plan.ops) {
      if (const Exchange* exchange = op.exchange()) {
        planes = std::max(planes, find_ways(exchange->traffic));
      }
    }
    simulator_.add_planes(static_cast<int>(planes), topology.gpu_count());
    for (const auto& [pair, ways] : ways_) {
      for (std::size_t i = 0; i < ways.size(); ++i) {
        simulator_.add_route(static_cast<int>(i), pair.first, pair.second, ways[i].links);
      }
    }
  }

  void launch(OpId op, const ByteMatrix& traffic, Seconds start,
              std::function<void()> ended) override {
    const Seconds begin = start + topology_.overhead_of(traffic);
    if (peers_ > 0) return launch_in_order(op, traffic, begin, std::move(ended));
    std::vector<std::vector<Simulator::Flow>> senders;
    for (int from = 0; from < traffic.ranks(); ++from) {
      auto flows = flows_from(GpuId(from), traffic, begin);
      if (!flows.empty()) senders.push_back(std::move(flows));
    }
    if (senders.empty()) senders.emplace_back();
    Active& exchange = active_[op];
    exchange.actors = static_cast<int>(senders.size());
    exchange.ended = std::move(ended);
    exchange.traffic = &traffic;
    for (auto& flows : senders) {
      simulator_.spawn([this, op, begin, &exchange, flows = std::move(flows)] {
        simulator_.sleep_until(begin);
        slow_links(exchange);
        simulator_.send(flows);
        if (--exchange.actors == 0) finish(op);
      });
    }
  }

 private:
  struct Active {
    int actors = 0;  // whose data is still on its way
    std::function<void()> ended;
    std::unique_ptr<PeerOrder> order;  // with a limited number of peers
    const ByteMatrix* traffic = nullptr;
    std::vector<std::pair<std::size_t, double>> parts;  // of the links with a table it loads
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
    const LinkLoads loads = topology_.loads(*exchange.traffic);
    for (std::size_t l = 0; l < parts_.size(); ++l) {
      const Link& link = topology_.links()[l];
      if (!link.table || loads.bytes[l] == 0) continue;
      exchange.parts.emplace_back(l, link.part_of(Bytes(loads.bytes[l])));
      parts_[l].sum += exchange.parts.back().second;
      ++parts_[l].exchanges;
    }
  }

  void finish(OpId op) {
    const std::function<void()> done = std::move(active_.at(op).ended);
    for (const auto& [link, part] : active_.at(op).parts) {
      // No rest of a sum may stay behind.
      if (--parts_[link].exchanges == 0) parts_[link].sum = part;
      parts_[link].sum -= part;
    }
    active_.erase(op);
    done();
  }

  void launch_in_order(OpId op, const ByteMatrix& traffic, Seconds begin,
                       std::function<void()> ended) {
    const std::vector<GpuId>& participants = plan_[op].exchange()->participants;
    std::vector<int> nodes;
    for (const GpuId gpu : participants) nodes.push_back(topology_.host_of(gpu));
    Active& exchange = active_[op];
    exchange.ended = std::move(ended);
    exchange.order = std::make_unique<PeerOrder>(participants, nodes, traffic, peers_);
    exchange.traffic = &traffic;
    simulator_.spawn([this, op, begin] {
      simulator_.sleep_until(begin);
      slow_links(active_.at(op));
      send(op, active_.at(op).order->begin());
    });
  }

  /// Sends the data of some pairs, and after each of them what it held up.
  void send(OpId op, const std::vector<PeerOrder::Pair>& pairs) {
    Active& exchange = active_.at(op);
    exchange.actors += static_cast<int>(pairs.size());
    if (exchange.actors == 0) return finish(op);
    for (const PeerOrder::Pair& pair : pairs) {
      std::vector<Simulator::Flow> flows;
      add_flows(pair, exchange.traffic->at(pair.first, pair.second), simulator_.now(), flows);
      sort_by_start(flows);
      simulator_.spawn([this, op, pair, &exchange, flows = std::move(flows)] {
        simulator_.send(flows);
        --exchange.actors;
        send(op, exchange.order->end(pair));
      });
    }
  }

  /// Looks up the ways of every pair with traffic; returns the largest number of ways of a pair.
  std::size_t find_ways(const ByteMatrix& traffic) {
    std::size_t most = 0;
    for (int rank = 0; rank < traffic.ranks(); ++rank) {
      const GpuId from(rank);
      for (const auto& entry : traffic.row(from)) {
        if (entry.to == from) continue;
        auto& ways = ways_[{from, entry.to}];
        if (ways.empty()) {
          for (Path& path : topology_.paths(from, entry.to)) {
            Seconds latency(0);
            for (LinkId link : path.links) latency += topology_.links()[link.index()].latency;
            ways.push_back({std::move(path.links), path.share, latency});
          }
        }
        most = std::max(most, ways.size());
      }
    }
    return most;
  }

  /// The flows that a GPU sends, in the order in which they begin.
  std::vector<Simulator::Flow> flows_from(GpuId from, const ByteMatrix& traffic, Seconds begin) {
    std::vector<Simulator::Flow> flows;
    for (const auto& entry : traffic.row(from)) {
      if (entry.to == from) continue;
      add_flows({from, entry.to}, traffic.bytes(entry), begin, flows);
    }
    sort_by_start(flows);
    return flows;
  }

  /// A flow for each way of the pair, after the latency of that way.
  void add_flows(const Pair& pair, Bytes total, Seconds begin,
                 std::vector<Simulator::Flow>& flows) const {
    double share = 0;
    std::int64_t sent = 0;
    const auto& ways = ways_.at(pair);
    for (std::size_t i = 0; i < ways.size(); ++i) {
      share += ways[i].share;
      const std::int64_t bytes = std::llround(static_cast<double>(total.value) * share) - sent;
      sent += bytes;
      if (bytes == 0) continue;
      flows.push_back(
          {static_cast<int>(i), pair.first, pair.second, Bytes(bytes), begin + ways[i].latency});
    }
  }

  static void sort_by_start(std::vector<Simulator::Flow>& flows) {
    std::stable_sort(flows.begin(), flows.end(),
                     [](const auto& a, const auto& b) { return a.start < b.start; });
  }

  Simulator& simulator_;
  const Topology& topology_;
  const Plan& plan_;
  int peers_;
  std::map<Pair, std::vector<Way>> ways_;
  std::map<OpId, Active> active_;
  std::vector<Parts> parts_;  // per link
  bool tables_ = false;       // some link has one
};

}  // namespace

Seconds flow_precision(const Topology& topology, const Plan& plan, double part) {
  // Each completion solves the max-min system of all flows, so that taking those together that are
  // almost simultaneous saves most of the time. docs/fidelity.md has time against error.
  constexpr Seconds least(1e-9);
  Seconds shortest(std::numeric_limits<double>::infinity());
  for (const Op& op : plan.ops) {
    const Exchange* exchange = op.exchange();
    if (exchange == nullptr || exchange->traffic.off_diagonal() == Bytes(0)) continue;
    shortest = std::min(shortest, exchange_time(topology, exchange->traffic).transfer);
  }
  return shortest.value < std::numeric_limits<double>::infinity() ? std::max(least, shortest * part)
                                                                  : least;
}

std::unique_ptr<Network> make_flow_network(Simulator& simulator, const Topology& topology,
                                           const Plan& plan, int peers) {
  return std::make_unique<FlowNetwork>(simulator, topology, plan, peers);
}

}  // namespace moesim
