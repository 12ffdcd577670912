// SPDX-License-Identifier: Apache-2.0
#include "sim/policy/gradient_sum.h"

#include <stdexcept>

#include "sim/collective/ring.h"

namespace moesim {
namespace {

/// Adds the GPU of each expert's gradients in every group of a copy: [expert][group].
void add_homes(std::vector<Ring>& rings, const PlacementContext& context,
               const LayerDecision& decision, int first) {
  const EpGroups& groups = context.groups;
  const SlotTable homes = decision.gradient_homes.empty() ? decision.assignment.placement().table()
                                                          : decision.gradient_homes;
  std::vector<Ring> holders(static_cast<std::size_t>(context.experts),
                            Ring(static_cast<std::size_t>(groups.count()), GpuId(-1)));
  for (std::size_t g = 0; g < homes.size(); ++g) {
    const GpuId gpu(static_cast<std::int64_t>(g));
    for (const ExpertId e : homes[g]) {
      GpuId& home = holders[e.index()][static_cast<std::size_t>(groups.group_of(gpu))];
      if (home.value < 0) home = gpu;
    }
  }
  for (const Ring& of_expert : holders) {
    for (const GpuId gpu : of_expert) {
      if (gpu.value < 0) throw std::logic_error("an EP group lacks an expert's gradients");
    }
  }
  rings.resize(holders.size());
  for (std::size_t e = 0; e < holders.size(); ++e) {
    for (const GpuId gpu : holders[e]) rings[e].emplace_back(first + gpu.value);
  }
}

/// Ranks of the same place in all groups hold the same part.
void add_ranks(std::vector<Ring>& rings, const EpGroups& groups, int first) {
  rings.resize(static_cast<std::size_t>(groups.size()));
  for (int r = 0; r < groups.size(); ++r) {
    for (int g = 0; g < groups.count(); ++g) {
      rings[static_cast<std::size_t>(r)].emplace_back(first + groups.gpu(g, GpuId(r)).value);
    }
  }
}

/// Every GPU of a copy holds a part of its own.
void add_gpus(std::vector<Ring>& rings, int gpus, int first) {
  rings.resize(static_cast<std::size_t>(gpus));
  for (int g = 0; g < gpus; ++g) rings[static_cast<std::size_t>(g)].emplace_back(first + g);
}

std::int64_t divided_up(std::int64_t value, std::int64_t by) { return (value + by - 1) / by; }

}  // namespace

std::optional<ParamExchange> expert_ring(const PlacementContext& context,
                                         const std::vector<const LayerDecision*>& copies,
                                         const ExpertRing& ring) {
  const EpGroups& groups = context.groups;
  const std::int64_t expert = context.model.expert_parameters();
  std::int64_t part = expert;  // parameters that a ring passes round
  std::vector<Ring> rings;
  int first = 0;
  for (const LayerDecision* decision : copies) {
    switch (decision->gradients) {
      case GradientLayout::homes:
        add_homes(rings, context, *decision, first);
        break;
      case GradientLayout::sharded:
        add_ranks(rings, groups, first);
        part = divided_up(expert, groups.size()) * context.experts;
        break;
      case GradientLayout::summed:
        add_gpus(rings, groups.gpus(), first);
        part = divided_up(expert, groups.gpus()) * context.experts;
        break;
    }
    first += groups.gpus();
  }
  const std::int64_t holders = std::ssize(rings.front());
  if (holders == 1 || ring.bytes == 0) return std::nullopt;
  const Bytes shard(divided_up(part, holders) * ring.bytes);
  const auto passed = static_cast<std::uint32_t>(ring.times * (holders - 1));
  return ParamExchange{ring.name, ring_traffic(rings, first, shard, passed), {}, {}};
}

std::optional<ParamExchange> gradient_sum(const PlacementContext& context,
                                          const LayerDecision& decision) {
  return expert_ring(context, {&decision}, {"sum-gradients", context.state.gradient, 2});
}

}  // namespace moesim
