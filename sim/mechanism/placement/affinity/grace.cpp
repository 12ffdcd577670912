// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/affinity/grace.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "sim/base/error.h"
#include "sim/mechanism/placement/affinity/clustering.h"

namespace moesim {
namespace {

std::int64_t affinity_to(const PairMatrix& affinity, ExpertId e,
                         const std::vector<ExpertId>& group) {
  std::int64_t sum = 0;
  for (const ExpertId other : group) sum += other == e ? 0 : affinity.at(e, other);
  return sum;
}

ExpertGroups spectral_groups(const PairMatrix& affinity, std::span<const ExpertId> experts,
                             int groups, std::uint64_t seed) {
  PairMatrix part(static_cast<int>(experts.size()));
  for (std::size_t i = 0; i < experts.size(); ++i) {
    for (std::size_t j = 0; j < experts.size(); ++j) {
      part.at(ExpertId(static_cast<std::int64_t>(i)), ExpertId(static_cast<std::int64_t>(j))) =
          affinity.at(experts[i], experts[j]);
    }
  }
  const std::vector<int> cluster_of = spectral_clusters(part, groups, seed);
  ExpertGroups members(groups);
  for (std::size_t i = 0; i < experts.size(); ++i) {
    members[cluster_of[i]].push_back(experts[i]);
  }
  return members;
}

/// Leaves every group its `most` members of highest affinity to it; returns the others, ascending.
std::vector<ExpertId> take_overflow(const PairMatrix& affinity, ExpertGroups& groups,
                                    std::size_t most) {
  std::vector<ExpertId> pool;
  for (auto& group : groups) {
    if (group.size() <= most) continue;
    std::vector<std::pair<std::int64_t, ExpertId>> ranked;  // highest affinity, lowest id first
    for (const ExpertId e : group) ranked.emplace_back(-affinity_to(affinity, e, group), e);
    std::sort(ranked.begin(), ranked.end());
    group.clear();
    for (std::size_t i = 0; i < ranked.size(); ++i) {
      (i < most ? group : pool).push_back(ranked[i].second);
    }
  }
  std::sort(pool.begin(), pool.end());
  return pool;
}

void join_nearest(const PairMatrix& affinity, ExpertId e, ExpertGroups& groups, std::size_t most) {
  std::size_t best = groups.size();
  std::int64_t largest = -1;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    if (groups[g].size() >= most) continue;
    const std::int64_t sum = affinity_to(affinity, e, groups[g]);
    if (sum > largest) largest = sum, best = g;
  }
  groups[best].push_back(e);
}

/// Moves the expert with least affinity to its own group, of all groups above `least`, to `target`.
void take_weakest(const PairMatrix& affinity, ExpertGroups& groups, std::size_t least,
                  std::size_t target) {
  std::pair<std::int64_t, ExpertId> weakest;
  std::size_t from = groups.size();
  for (std::size_t g = 0; g < groups.size(); ++g) {
    if (groups[g].size() <= least) continue;
    for (const ExpertId e : groups[g]) {
      const std::pair candidate(affinity_to(affinity, e, groups[g]), e);
      if (from == groups.size() || candidate < weakest) weakest = candidate, from = g;
    }
  }
  std::erase(groups[from], weakest.second);
  groups[target].push_back(weakest.second);
}

std::vector<double> gpu_loads(std::span<const std::int64_t> loads, const SlotTable& table) {
  std::vector<double> sums;
  for (const auto& experts : table) {
    std::int64_t sum = 0;
    for (const ExpertId e : experts) sum += loads[e.index()];
    sums.push_back(static_cast<double>(sum));
  }
  return sums;
}

}  // namespace

GroupSizes grace_sizes(int experts, int groups, double ratio) {
  const int mean = experts / groups;
  const int slack = std::max(1, static_cast<int>(std::lround(ratio * mean)));
  return {.least = std::max(1, mean - slack), .most = mean + slack};
}

ExpertGroups controlled_groups(const PairMatrix& affinity, std::span<const ExpertId> experts,
                               int groups, GroupSizes sizes, std::uint64_t seed) {
  const auto count = static_cast<std::int64_t>(experts.size());
  if (groups < 1 || count < groups || sizes.least < 0 ||
      std::int64_t{groups} * sizes.least > count || std::int64_t{groups} * sizes.most < count) {
    throw Error(fmt::format("{} experts cannot form {} groups of {} to {}", count, groups,
                            sizes.least, sizes.most));
  }
  const auto least = static_cast<std::size_t>(sizes.least);
  const auto most = static_cast<std::size_t>(sizes.most);
  ExpertGroups members = spectral_groups(affinity, experts, groups, seed);
  for (const ExpertId e : take_overflow(affinity, members, most)) {
    join_nearest(affinity, e, members, most);
  }
  for (std::size_t g = 0; g < members.size(); ++g) {
    while (members[g].size() < least) take_weakest(affinity, members, least, g);
  }
  for (auto& group : members) std::sort(group.begin(), group.end());
  return members;
}

SlotTable place_grace(const PairMatrix& affinity, int nodes, int gpus_per_node, double ratio,
                      std::uint64_t seed) {
  std::vector<ExpertId> all;
  for (int e = 0; e < affinity.experts(); ++e) all.emplace_back(e);
  const GroupSizes any{.least = gpus_per_node, .most = affinity.experts()};
  SlotTable table;
  for (const auto& node : controlled_groups(affinity, all, nodes, any, seed)) {
    const GroupSizes sizes = grace_sizes(static_cast<int>(node.size()), gpus_per_node, ratio);
    for (auto& gpu : controlled_groups(affinity, node, gpus_per_node, sizes, seed)) {
      table.push_back(std::move(gpu));
    }
  }
  return table;
}

GraceReplicas replicate_grace(std::span<const std::int64_t> loads, const SlotTable& primaries,
                              GraceCopyLoad rule) {
  GraceReplicas result{.experts = {}, .gpus = {}, .predicted = gpu_loads(loads, primaries)};
  auto& w = result.predicted;
  const auto heaviest = static_cast<std::size_t>(std::max_element(w.begin(), w.end()) - w.begin());
  const double most = w[heaviest];
  const double mean = std::accumulate(w.begin(), w.end(), 0.0) / static_cast<double>(w.size());
  if (w.size() < 2 || most == 0) return result;
  const int copies = std::min(std::max(1, static_cast<int>(std::floor(most / mean))),
                              static_cast<int>(w.size()) - 1);
  std::vector<std::size_t> order(w.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::erase(order, heaviest);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return w[a] < w[b]; });
  for (int i = 0; i < copies; ++i) {
    result.gpus.emplace_back(static_cast<std::int64_t>(order[i]));
  }
  std::vector<ExpertId> ranked = primaries[heaviest];
  std::sort(ranked.begin(), ranked.end(), [&](ExpertId a, ExpertId b) {
    return std::pair(-loads[a.index()], a) < std::pair(-loads[b.index()], b);
  });
  double copied = 0;  // W_r
  for (const ExpertId e : ranked) {
    if (copied > most * copies / (1 + copies)) break;
    result.experts.push_back(e);
    copied += static_cast<double>(loads[e.index()]);
  }
  const double per_copy = (rule == GraceCopyLoad::conserved ? copied : most) / (copies + 1);
  w[heaviest] += per_copy - copied;
  for (const GpuId gpu : result.gpus) w[gpu.index()] += per_copy;
  return result;
}

SlotTable with_replicas(const SlotTable& primaries, const GraceReplicas& replicas) {
  SlotTable table = primaries;
  for (const GpuId gpu : replicas.gpus) {
    auto& slots = table[gpu.index()];
    slots.insert(slots.end(), replicas.experts.begin(), replicas.experts.end());
  }
  return table;
}

std::vector<double> grace_weights(GpuId source, std::span<const GpuId> holders,
                                  std::span<const double> predicted, int gpus_per_node,
                                  GraceChoice choice) {
  const auto distance = [&](GpuId gpu) {
    if (choice == GraceChoice::weighted) return 0;
    if (gpu == source) return 0;
    return gpu.value / gpus_per_node == source.value / gpus_per_node ? 1 : 2;
  };
  int nearest = 2;
  for (const GpuId gpu : holders) nearest = std::min(nearest, distance(gpu));
  bool idle = false;  // a holder in use has no load
  for (const GpuId gpu : holders) {
    idle = idle || (distance(gpu) == nearest && predicted[gpu.index()] <= 0);
  }
  std::vector<double> weights;
  double sum = 0;
  for (const GpuId gpu : holders) {
    const double load = predicted[gpu.index()];
    const double weight = distance(gpu) != nearest ? 0 : idle ? (load <= 0 ? 1 : 0) : 1 / load;
    weights.push_back(weight);
    sum += weight;
  }
  for (double& weight : weights) weight /= sum;
  return weights;
}

}  // namespace moesim
