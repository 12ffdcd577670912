// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/serving/waterfill.h"

#include <algorithm>
#include <numeric>

#include "sim/base/error.h"

namespace moesim::waterfill {
namespace {

constexpr std::int64_t prefers = 11, over = 10;

/// As upstream's linear congruential step, in 32 bits.
std::uint32_t seed_of(GpuId source, std::int64_t token) {
  const auto mixed = static_cast<std::uint32_t>(token) ^
                     static_cast<std::uint32_t>(source.value) * std::uint32_t{0x9E3779B9};
  return mixed * std::uint32_t{1664525} + std::uint32_t{1013904223};
}

}  // namespace

Water fill(std::span<const std::int64_t> routed, std::span<const std::int64_t> tokens, int top_k) {
  if (top_k < 1) throw Error("tokens without routed choices");
  Water water;
  for (std::size_t r = 0; r < routed.size(); ++r) water.loads.push_back(routed[r] + tokens[r]);
  const auto ranks = std::ssize(routed);
  const auto sum = [](std::span<const std::int64_t> of) {
    return std::accumulate(of.begin(), of.end(), std::int64_t{0});
  };
  water.target = (sum(water.loads) + sum(routed) / top_k + ranks - 1) / ranks;
  water.all_ranks = std::ranges::max(water.loads) <= water.target;
  return water;
}

GpuId rank_for(const Water& water, GpuId source, std::int64_t token,
               std::span<const GpuId> visits) {
  const auto ranks = static_cast<int>(water.loads.size());
  std::vector<bool> open(water.loads.size(), water.all_ranks);
  open[source.index()] = true;
  for (const GpuId rank : visits) open[rank.index()] = true;
  std::vector<std::int64_t> room(water.loads.size());
  for (std::size_t r = 0; r < room.size(); ++r) {
    if (!open[r]) continue;
    const std::int64_t left = std::max<std::int64_t>(0, water.target - water.loads[r]);
    room[r] = r == source.index() ? left : left * over / prefers;
  }
  const std::int64_t all = std::accumulate(room.begin(), room.end(), std::int64_t{0});
  if (all > 0) {
    std::int64_t drawn = seed_of(source, token) % all;
    std::size_t rank = 0;
    while (drawn >= room[rank]) drawn -= room[rank++];
    return GpuId(static_cast<std::int64_t>(rank));
  }
  GpuId best = source;
  const auto try_rank = [&](GpuId rank) {
    if (water.loads[rank.index()] * prefers < water.loads[best.index()] * over) best = rank;
  };
  for (int r = 0; water.all_ranks && r < ranks; ++r) try_rank(GpuId(r));
  for (const GpuId rank : visits) try_rank(rank);
  return best;
}

}  // namespace moesim::waterfill
