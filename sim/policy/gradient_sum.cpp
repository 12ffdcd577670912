// SPDX-License-Identifier: Apache-2.0
#include "sim/policy/gradient_sum.h"

#include <stdexcept>

#include "sim/collective/ring.h"

namespace moesim {
namespace {

/// The GPU of each expert's gradients in every group: [expert][group].
std::vector<Ring> homes_of(const PlacementContext& context, const LayerDecision& decision) {
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
  return holders;
}

/// Ranks of the same place in all groups hold the same part.
std::vector<Ring> ranks_of(const EpGroups& groups) {
  std::vector<Ring> parts;
  for (int r = 0; r < groups.size(); ++r) {
    auto& holders = parts.emplace_back();
    for (int g = 0; g < groups.count(); ++g) holders.push_back(groups.gpu(g, GpuId(r)));
  }
  return parts;
}

std::int64_t divided_up(std::int64_t value, std::int64_t by) { return (value + by - 1) / by; }

}  // namespace

std::optional<ParamExchange> gradient_sum(const PlacementContext& context,
                                          const LayerDecision& decision) {
  const int groups = context.groups.count();
  const bool summed = decision.gradients == GradientLayout::summed;
  if (groups == 1 || summed || context.state.gradient == 0) return std::nullopt;
  const bool sharded = decision.gradients == GradientLayout::sharded;
  const auto parts = sharded ? ranks_of(context.groups) : homes_of(context, decision);
  const std::int64_t expert = context.model.expert_parameters();
  const std::int64_t part =
      sharded ? divided_up(expert, context.groups.size()) * context.experts : expert;  // parameters
  const Bytes shard(divided_up(part, groups) * context.state.gradient);
  return ParamExchange{
      "sum-gradients",
      ring_traffic(parts, context.groups.gpus(), shard, 2 * static_cast<std::uint32_t>(groups - 1)),
      {},
      {}};
}

}  // namespace moesim
