// SPDX-License-Identifier: Apache-2.0
// Fidelity `flow`: one communication per pair of GPUs and equal-cost path, all in flight at once.
#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "sim/engine/network.h"
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
  FlowNetwork(Simulator& simulator, const Topology& topology, const Plan& plan)
      : simulator_(simulator), topology_(topology) {
    for (const Link& link : topology.links()) simulator_.add_link(link.bandwidth);
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
    const Seconds begin = start + topology_.exchange_overhead();
    std::vector<std::vector<Simulator::Flow>> senders;
    for (int from = 0; from < traffic.ranks(); ++from) {
      auto flows = flows_from(GpuId(from), traffic, begin);
      if (!flows.empty()) senders.push_back(std::move(flows));
    }
    if (senders.empty()) senders.emplace_back();
    Active& exchange = active_[op];
    exchange = {static_cast<int>(senders.size()), std::move(ended)};
    for (auto& flows : senders) {
      simulator_.spawn([this, op, begin, &exchange, flows = std::move(flows)] {
        simulator_.sleep_until(begin);
        simulator_.send(flows);
        if (--exchange.senders > 0) return;
        const std::function<void()> done = std::move(exchange.ended);
        active_.erase(op);
        done();
      });
    }
  }

 private:
  struct Active {
    int senders = 0;  // actors whose data is still on its way
    std::function<void()> ended;
  };

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
      const auto total = static_cast<double>(traffic.bytes(entry).value);
      double share = 0;
      std::int64_t sent = 0;
      const auto& ways = ways_.at({from, entry.to});
      for (std::size_t i = 0; i < ways.size(); ++i) {
        share += ways[i].share;
        const std::int64_t bytes = std::llround(total * share) - sent;
        sent += bytes;
        if (bytes == 0) continue;
        flows.push_back(
            {static_cast<int>(i), from, entry.to, Bytes(bytes), begin + ways[i].latency});
      }
    }
    std::stable_sort(flows.begin(), flows.end(),
                     [](const auto& a, const auto& b) { return a.start < b.start; });
    return flows;
  }

  Simulator& simulator_;
  const Topology& topology_;
  std::map<Pair, std::vector<Way>> ways_;
  std::map<OpId, Active> active_;
};

}  // namespace

Seconds flow_precision(const Topology& topology, const Plan& plan, double part) {
  // Each completion solves the max-min system of all flows, so that taking those together that are
  // almost simultaneous saves most of the time. docs/fidelity.md has time against error.
  constexpr Seconds least(1e-9);
  Seconds shortest(1);
  for (const Op& op : plan.ops) {
    const Exchange* exchange = op.exchange();
    if (exchange == nullptr || exchange->traffic.off_diagonal() == Bytes(0)) continue;
    shortest = std::min(shortest, exchange_time(topology, exchange->traffic).transfer);
  }
  return std::max(least, shortest * part);
}

std::unique_ptr<Network> make_flow_network(Simulator& simulator, const Topology& topology,
                                           const Plan& plan) {
  return std::make_unique<FlowNetwork>(simulator, topology, plan);
}

}  // namespace moesim
