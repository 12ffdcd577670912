// SPDX-License-Identifier: Apache-2.0
#include "sim/engine/pair_paths.h"

#include <algorithm>

#include "sim/base/place_of.h"

namespace moesim {

namespace {

/// In place of a receiver: the memory of the sender's host, or the way back from there.
constexpr GpuId host_peer(bool back) { return GpuId(back ? -2 : -1); }

GpuId receiver_of(const GroupTraffic& traffic, GpuId to) {
  return traffic.with_hosts ? host_peer(traffic.transposed) : to;
}

std::vector<Path> paths_of(const Topology& topology, GpuId from, GpuId to) {
  if (to.value >= 0) return topology.paths(from, to);
  const HostRoute& route = *topology.host_route(from);
  return {{to == host_peer(true) ? route.back : route.out, 1}};
}

}  // namespace

PairPaths::PairPaths(const Plan& plan, const Topology& topology, const AddRoute& add_route)
    : pairs_(static_cast<std::size_t>(topology.gpu_count())) {
  for (const Op& op : plan.ops) {
    if (!op.exchange()) continue;
    const GroupTraffic traffic = op.traffic();
    traffic.for_each([&](GpuId from, GpuId to, Bytes) {
      const GpuId receiver = receiver_of(traffic, to);
      if (from != receiver) pairs_[from.index()].push_back({receiver, 0});
    });
    for (const GpuId from : op.group) {
      auto& pairs = pairs_[from.index()];
      std::ranges::sort(pairs, {}, &Pair::to);
      const auto same = [](const Pair& a, const Pair& b) { return a.to == b.to; };
      pairs.erase(std::unique(pairs.begin(), pairs.end(), same), pairs.end());
    }
  }
  for (GpuId from(0); from.index() < pairs_.size(); ++from.value) {
    for (Pair& pair : pairs_[from.index()]) {
      pair.first = ways_.size();
      for (const Path& path : paths_of(topology, from, pair.to)) {
        Seconds latency(0);
        for (const LinkId link : path.links) latency += topology.links()[link.index()].latency;
        const auto place = static_cast<int>(ways_.size() - pair.first);
        add_route(from, pair.to, place, path.links);
        ways_.push_back({place, path.share, latency});
      }
    }
  }
}

std::int64_t pairs_that_move(const Plan& plan) {
  std::int64_t pairs = 0;
  for (const Op& op : plan.ops) {
    if (!op.exchange()) continue;
    op.traffic().for_each([&](GpuId from, GpuId to, Bytes) { pairs += from == to ? 0 : 1; });
  }
  return pairs;
}

std::size_t PairPaths::first(const GroupTraffic& traffic, GpuId from, GpuId to) const {
  const std::vector<Pair>& pairs = pairs_[from.index()];
  return pairs[place_of(pairs, receiver_of(traffic, to), &Pair::to)].first;
}

std::span<const PairPaths::Way> PairPaths::of(std::size_t first) const {
  std::size_t last = first + 1;
  while (last < ways_.size() && ways_[last].place > 0) ++last;
  return {ways_.data() + first, last - first};
}

}  // namespace moesim
