// SPDX-License-Identifier: Apache-2.0
#include "sim/policy/gradient_sum.h"

#include <map>
#include <stdexcept>

namespace moesim {
namespace {

/// The GPU of each expert's gradients in every group: [expert][group].
std::vector<PartHolders> homes_of(const PlacementContext& context, const LayerDecision& decision) {
  const auto groups = static_cast<std::size_t>(context.gpus / context.ep);
  std::vector<PartHolders> homes(static_cast<std::size_t>(context.experts),
                                 PartHolders(groups, GpuId(-1)));
  const auto keep_first = [&](ExpertId expert, GpuId gpu) {
    GpuId& home = homes[expert.index()][gpu.index() / static_cast<std::size_t>(context.ep)];
    if (home.value < 0) home = gpu;
  };
  const Placement& placement = decision.assignment.placement();
  for (std::int64_t g = 0; g < context.gpus; ++g) {
    if (!decision.gradient_homes.empty()) {
      for (const ExpertId e : decision.gradient_homes[static_cast<std::size_t>(g)]) {
        keep_first(e, GpuId(g));
      }
      continue;
    }
    const std::int64_t first = placement.first_slot(GpuId(g)).value;
    for (std::int64_t s = first; s < first + placement.slots_on(GpuId(g)); ++s) {
      keep_first(placement.expert_in(SlotId(s)), GpuId(g));
    }
  }
  for (const PartHolders& of_expert : homes) {
    for (const GpuId gpu : of_expert) {
      if (gpu.value < 0) throw std::logic_error("an EP group lacks an expert's gradients");
    }
  }
  return homes;
}

/// Ranks of the same place in all groups hold the same part.
std::vector<PartHolders> ranks_of(const PlacementContext& context) {
  std::vector<PartHolders> parts(static_cast<std::size_t>(context.ep));
  for (std::int64_t g = 0; g < context.gpus; ++g) {
    parts[static_cast<std::size_t>(g % context.ep)].emplace_back(g);
  }
  return parts;
}

std::int64_t divided_up(std::int64_t value, std::int64_t by) { return (value + by - 1) / by; }

}  // namespace

ByteMatrix group_rings(const std::vector<PartHolders>& parts, int gpus, Bytes unit,
                       std::uint32_t units) {
  std::vector<std::map<GpuId, std::uint32_t>> next(static_cast<std::size_t>(gpus)), before = next;
  for (const PartHolders& holders : parts) {
    const std::size_t groups = holders.size();
    for (std::size_t g = 0; g < groups; ++g) {
      next[holders[g].index()][holders[(g + 1) % groups]] += units;
      before[holders[g].index()][holders[(g + groups - 1) % groups]] += units;
    }
  }
  ByteMatrix traffic(unit);
  for (std::size_t g = 0; g < next.size(); ++g) {
    std::map<GpuId, std::uint32_t> row;
    for (const auto& [to, sent] : next[g]) row[to] += (sent + 1) / 2;
    for (const auto& [to, sent] : before[g]) row[to] += sent / 2;
    std::vector<ByteMatrix::Entry> entries;
    for (const auto& [to, sent] : row) {
      if (sent > 0) entries.push_back({to, sent});
    }
    traffic.add_row(entries);
  }
  return traffic;
}

std::optional<ParamExchange> gradient_sum(const PlacementContext& context,
                                          const LayerDecision& decision) {
  const int groups = context.gpus / context.ep;
  const bool summed = decision.gradients == GradientLayout::summed;
  if (groups == 1 || summed || context.state.gradient == 0) return std::nullopt;
  const bool sharded = decision.gradients == GradientLayout::sharded;
  const auto parts = sharded ? ranks_of(context) : homes_of(context, decision);
  const std::int64_t expert = context.model.expert_parameters();
  const std::int64_t part =
      sharded ? divided_up(expert, context.ep) * context.experts : expert;  // parameters
  const Bytes shard(divided_up(part, groups) * context.state.gradient);
  return ParamExchange{
      "sum-gradients",
      group_rings(parts, context.gpus, shard, 2 * static_cast<std::uint32_t>(groups - 1)),
      {},
      {}};
}

}  // namespace moesim
