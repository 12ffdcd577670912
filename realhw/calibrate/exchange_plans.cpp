// SPDX-License-Identifier: Apache-2.0
#include "realhw/calibrate/exchange_plans.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "sim/plan/exchange_time.h"

namespace moesim {
namespace {

/// The groups that a group of the outer level falls into.
using Groups = std::vector<std::vector<GpuId>>;

/// Peers of the GPU at `place` of group `own`: turn by turn one of every other group, first those
/// at its own place, so that every turn is a permutation if groups have one size.
std::vector<GpuId> peers_in(const Groups& groups, std::size_t own, std::size_t place) {
  std::vector<GpuId> peers;
  std::size_t most = 0;
  for (const auto& group : groups) most = std::max(most, group.size());
  for (std::size_t turn = 0; turn < most; ++turn) {
    for (std::size_t d = 1; d < groups.size(); ++d) {
      const auto& group = groups[(own + d) % groups.size()];
      if (turn < group.size()) peers.push_back(group[(place + turn) % group.size()]);
    }
  }
  return peers;
}

std::string name_of(const std::vector<Level>& levels, std::size_t outer) {
  if (outer + 1 == levels.size()) return "inside a " + levels[outer].name;
  const std::string& inner = levels[outer + 1].name;
  return fmt::format("between {}{}", inner, inner.ends_with("ch") ? "es" : "s");
}

constexpr double coarse = 4;  // ratio of neighbouring sizes if nothing is fitted to them

Plan empty_plan(const std::string& name, const Topology& topology) {
  Plan plan;
  plan.name = name;
  plan.gpus = topology.gpu_count();
  return plan;
}

/// From 64 bytes in coarse steps to 1 KiB, because only latency decides there; then by `step` to
/// the size that takes sizes.longest by the topology's own rates.
std::vector<Bytes> sizes_of(const Topology& topology, const PeerSets& set, int peers,
                            const ExchangeSizes& sizes, double step) {
  const Bytes probe(1 << 20);
  const Seconds time = price(topology, set.traffic(peers, probe))->alone.transfer;
  const double by_time = sizes.longest / time * static_cast<double>(probe.value);
  const auto cap = static_cast<double>(sizes.most.value / std::max(1, peers));
  const double most = std::clamp(by_time, std::min(16384.0, cap), cap);
  std::vector<Bytes> list;
  for (double size = 64; size <= most; size *= size < 1024 ? coarse : step) {
    list.emplace_back(std::llround(size));
  }
  return list;
}

/// Exchanges of every size, each after all ranks have met.
MicroPlan sweep(const std::string& name, const Topology& topology, const PeerSets& set, int peers,
                const std::vector<Bytes>& sizes) {
  MicroPlan micro{name, empty_plan(name, topology)};
  for (const Bytes size : sizes) {
    add_settle(micro.plan);
    add_exchange(micro.plan, Probe::sized, Stream::ep, set.traffic(peers, size));
  }
  return micro;
}

/// Exchanges of nothing, and of a byte to ever more peers: their times are overhead and cost per
/// peer.
MicroPlan overheads(const Topology& topology, const PeerSets& set) {
  const std::string name = "overhead " + set.name;
  MicroPlan micro{name, empty_plan(name, topology)};
  constexpr int times = 4;
  for (int i = 0; i < times; ++i) {
    add_settle(micro.plan);
    add_exchange(micro.plan, Probe::empty, Stream::ep, set.traffic(0, Bytes(1)));
    for (int peers = 1; peers <= set.most(); peers = std::min(2 * peers, set.most())) {
      add_settle(micro.plan);
      add_exchange(micro.plan, Probe::tiny, Stream::ep, set.traffic(peers, Bytes(1)));
      if (peers == set.most()) break;
    }
  }
  return micro;
}

/// Two exchanges at once, on two streams, of up to four of the largest sizes: how they share links.
/// The next pair starts when the second exchange of the last one has ended.
MicroPlan in_pairs(const std::string& name, const Topology& topology, const PeerSets& first,
                   const PeerSets& second, const ExchangeSizes& sizes) {
  MicroPlan micro{name, empty_plan(name, topology)};
  const auto of_first = sizes_of(topology, first, first.most(), sizes, coarse);
  const auto of_second = sizes_of(topology, second, second.most(), sizes, coarse);
  const std::size_t count = std::min({std::size_t{4}, of_first.size(), of_second.size()});
  std::vector<OpId> before;
  for (std::size_t i = count; i > 0; --i) {
    const OpId settled = add_settle(micro.plan, before);
    add_exchange(micro.plan, Probe::sized, Stream::ep,
                 first.traffic(first.most(), of_first[of_first.size() - i]), {});
    before = {add_exchange(micro.plan, Probe::sized, Stream::ep_2,
                           second.traffic(second.most(), of_second[of_second.size() - i]),
                           {settled})};
  }
  return micro;
}

/// Every GPU is a peer of every other one; GPU g begins with g + 1, so that not all begin with one.
PeerSets whole(const Topology& topology) {
  PeerSets set{"in the whole cluster", {}};
  const int gpus = topology.gpu_count();
  for (int g = 0; g < gpus; ++g) {
    auto& peers = set.peers.emplace_back();
    for (int d = 1; d < gpus; ++d) peers.emplace_back((g + d) % gpus);
  }
  return set;
}

/// Traffic that no table is fitted to. An entry is up to three times the mean: bytes scaled by a
/// hash of the pair and of `seed`, so that every rank makes the same matrix.
ByteMatrix uneven(const PeerSets& set, Bytes mean, std::uint32_t seed) {
  ByteMatrix matrix;
  for (std::size_t from = 0; from < set.peers.size(); ++from) {
    std::vector<std::uint32_t> row(set.peers.size(), 0);
    for (const GpuId to : set.peers[from]) {
      std::uint32_t h = seed * 0x9e3779b9u + static_cast<std::uint32_t>(from) * 0x85ebca6bu +
                        static_cast<std::uint32_t>(to.value) * 0xc2b2ae35u;
      h = (h ^ (h >> 15)) * 0x2c1b3c6du;
      h ^= h >> 12;
      const double part = static_cast<double>(h & 0xffffu) / 65536;  // skewed: mean of 3 x^2 is 1
      row[to.index()] =
          static_cast<std::uint32_t>(static_cast<double>(mean.value) * 3 * part * part);
    }
    matrix.add_dense_row(row);
  }
  return matrix;
}

MicroPlan uneven_sweep(const Topology& topology, const PeerSets& set, const ExchangeSizes& sizes) {
  const std::string name = "uneven " + set.name;
  MicroPlan micro{name, empty_plan(name, topology)};
  std::uint32_t seed = 0;
  ExchangeSizes smaller = sizes;
  smaller.longest = sizes.longest * 0.5;
  for (const Bytes size : sizes_of(topology, set, set.most(), smaller, coarse)) {
    add_settle(micro.plan);
    add_exchange(micro.plan, Probe::sized, Stream::ep, uneven(set, size, seed++));
  }
  return micro;
}

}  // namespace

int PeerSets::most() const {
  std::size_t most = 0;
  for (const auto& list : peers) most = std::max(most, list.size());
  return static_cast<int>(most);
}

ByteMatrix PeerSets::traffic(int count, Bytes bytes) const {
  ByteMatrix matrix(bytes);
  for (const auto& list : peers) {
    std::vector<std::uint32_t> row(peers.size(), 0);
    for (std::size_t i = 0; i < std::min(list.size(), static_cast<std::size_t>(count)); ++i) {
      row[list[i].index()] = 1;
    }
    matrix.add_dense_row(row);
  }
  return matrix;
}

std::vector<PeerSets> peer_sets_of(const Topology& topology) {
  const auto& levels = topology.levels();
  const auto gpus = static_cast<std::size_t>(topology.gpu_count());
  std::vector<PeerSets> sets;
  for (std::size_t outer = 0; outer < levels.size(); ++outer) {
    std::vector<Groups> within(static_cast<std::size_t>(levels[outer].groups));
    std::vector<std::pair<std::size_t, std::size_t>> place_of(gpus);  // group, place in it
    for (std::size_t g = 0, last = gpus; g < gpus; ++g) {
      Groups& groups = within[static_cast<std::size_t>(levels[outer].group_of[g])];
      const auto inner =
          outer + 1 < levels.size() ? static_cast<std::size_t>(levels[outer + 1].group_of[g]) : g;
      if (groups.empty() || inner != last) groups.emplace_back();
      last = inner;
      groups.back().emplace_back(g);
      place_of[g] = {groups.size() - 1, groups.back().size() - 1};
    }
    PeerSets set{name_of(levels, outer), {}};
    for (std::size_t g = 0; g < gpus; ++g) {
      const Groups& groups = within[static_cast<std::size_t>(levels[outer].group_of[g])];
      set.peers.push_back(peers_in(groups, place_of[g].first, place_of[g].second));
    }
    if (set.most() > 0) sets.push_back(std::move(set));
  }
  return sets;
}

std::vector<ExchangePlan> exchange_plans(const Topology& topology, const ExchangeSizes& sizes) {
  std::vector<ExchangePlan> plans;
  const auto add = [&](ExchangePurpose purpose, MicroPlan micro) {
    plans.push_back({purpose, std::move(micro)});
  };
  const std::vector<PeerSets> sets = peer_sets_of(topology);
  for (const PeerSets& set : sets) {
    const int all = set.most();
    add(ExchangePurpose::overhead, overheads(topology, set));
    add(ExchangePurpose::table, sweep("alltoall " + set.name, topology, set, all,
                                      sizes_of(topology, set, all, sizes, sizes.step)));
    if (all > 1) {
      add(ExchangePurpose::check, sweep("sendrecv " + set.name, topology, set, 1,
                                        sizes_of(topology, set, 1, sizes, coarse)));
    }
    add(ExchangePurpose::together, in_pairs("two at once " + set.name, topology, set, set, sizes));
  }
  if (sets.empty()) return plans;
  const PeerSets everybody = whole(topology);
  if (sets.size() > 1) {
    add(ExchangePurpose::check,
        sweep("alltoall " + everybody.name, topology, everybody, everybody.most(),
              sizes_of(topology, everybody, everybody.most(), sizes, coarse)));
    add(ExchangePurpose::together, in_pairs(sets.front().name + " and " + sets.back().name,
                                            topology, sets.front(), sets.back(), sizes));
  }
  add(ExchangePurpose::check, uneven_sweep(topology, everybody, sizes));
  return plans;
}

}  // namespace moesim
