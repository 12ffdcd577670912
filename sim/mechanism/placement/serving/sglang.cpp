// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/serving/sglang.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "sim/base/error.h"
#include "sim/base/id_vector.h"
#include "sim/trace/synth/random.h"

namespace moesim::sglang {
namespace {

template <class T>
void shuffle(std::vector<T>& items, Random& random) {
  for (std::size_t i = items.size(); i > 1; --i) {
    std::swap(items[i - 1], items[random.below(static_cast<std::uint32_t>(i))]);
  }
}

/// `count` slots, each equally often; which ones come once more is drawn, and so is the order.
std::vector<SlotId> fair_draw(std::vector<SlotId> slots, std::size_t count, Random& random) {
  std::vector<SlotId> drawn;
  while (drawn.size() + slots.size() <= count) {
    drawn.insert(drawn.end(), slots.begin(), slots.end());
  }
  shuffle(slots, random);
  drawn.insert(drawn.end(), slots.begin(),
               slots.begin() + static_cast<std::ptrdiff_t>(count - drawn.size()));
  shuffle(drawn, random);
  return drawn;
}

/// The finaliser of splitmix64: a bijection that mixes all bits.
std::uint64_t mix(std::uint64_t x) {
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9U;
  x = (x ^ x >> 27) * 0x94d049bb133111ebU;
  return x ^ x >> 31;
}

}  // namespace

double utilisation(std::span<const double> gpu_loads) {
  const double sum = std::accumulate(gpu_loads.begin(), gpu_loads.end(), 0.0);
  if (!(sum > 0)) return 1;
  return sum / static_cast<double>(gpu_loads.size()) /
         *std::max_element(gpu_loads.begin(), gpu_loads.end());
}

std::vector<SlotId> candidates(const Placement& placement, const RankLevel& nodes, ExpertId expert,
                               GpuId rank) {
  const std::vector<SlotId>& slots = placement.slots_of(expert);
  const auto own = std::ranges::find(slots, rank, [&](SlotId s) { return placement.gpu_of(s); });
  if (own != slots.end()) return {*own};
  const auto near = [&](SlotId slot) {
    return nodes.group_of(placement.gpu_of(slot)) == nodes.group_of(rank);
  };
  const auto first = std::ranges::find_if(slots, near);
  if (first == slots.end() || std::ranges::all_of(slots, near)) return slots;
  return {*first};
}

std::vector<std::vector<SlotId>> static_slots(const Placement& placement, const RankLevel& nodes,
                                              int layer, std::uint64_t seed) {
  IdVector<GpuId, std::vector<SlotId>> table(placement.gpus());
  Random random(seed, static_cast<std::uint64_t>(layer));
  for (const ExpertId e : ids<ExpertId>(placement.experts())) {
    std::vector<GpuId> drawing;
    for (const GpuId rank : table.ids()) {
      const std::vector<SlotId> slots = candidates(placement, nodes, e, rank);
      table[rank].push_back(slots.front());
      if (slots.size() > 1) drawing.push_back(rank);
    }
    const auto drawn = fair_draw(placement.slots_of(e), drawing.size(), random);
    for (std::size_t i = 0; i < drawing.size(); ++i) table[drawing[i]].back() = drawn[i];
  }
  return std::move(table).take();
}

Shares dynamic_shares(std::span<const Choice> choices, std::span<const SlotId> replicas,
                      GpuId source, ExpertId expert, std::uint64_t seed) {
  const std::uint64_t pair =
      static_cast<std::uint64_t>(source.value) << 32 | static_cast<std::uint64_t>(expert.value);
  const std::uint64_t stream = mix(mix(seed + 1) + pair);
  return shares_by(choices, replicas, [&](std::int64_t, const Choice& choice) {
    const std::uint64_t bits = mix(stream + static_cast<std::uint64_t>(choice.token)) >> 32;
    return static_cast<std::size_t>(bits * replicas.size() >> 32);
  });
}

}  // namespace moesim::sglang
