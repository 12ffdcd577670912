// SPDX-License-Identifier: Apache-2.0
#include "sim/planner/layer/gradient_sum.h"

#include <map>
#include <numeric>
#include <stdexcept>

#include "sim/collective/collective.h"
#include "sim/collective/ring.h"

namespace moesim {
namespace {

/// [part of tensors] the EP groups that hold it.
std::vector<std::vector<int>> groups_by_part(const EpGroups& groups, const TensorSharers& sharers) {
  std::vector<std::vector<int>> by_part(sharers.empty() ? 1 : sharers.front().size());
  for (const auto& list : sharers) {
    for (std::size_t part = 0; part < list.size(); ++part) by_part[part].push_back(list[part]);
  }
  for (int g = 0; sharers.empty() && g < groups.count(); ++g) by_part[0].push_back(g);
  return by_part;
}

/// Adds the GPU of each expert's gradients in some groups of a copy: [expert][group].
void add_homes(std::vector<Ring>::iterator rings, const PlacementContext& context,
               const LayerDecision& decision, const std::vector<int>& among, int first) {
  const EpGroups& groups = context.groups;
  const SlotTable homes = state_homes(decision);
  for (const int group : among) {
    std::vector<GpuId> home(static_cast<std::size_t>(context.experts), GpuId(-1));
    for (int r = 0; r < groups.size(); ++r) {
      const GpuId gpu = groups.gpu(group, GpuId(r));
      for (const ExpertId e : homes[gpu.index()]) {
        if (home[e.index()].value < 0) home[e.index()] = gpu;
      }
    }
    for (std::size_t e = 0; e < home.size(); ++e) {
      if (home[e].value < 0) throw std::logic_error("an EP group lacks an expert's gradients");
      rings[static_cast<std::ptrdiff_t>(e)].emplace_back(first + home[e].value);
    }
  }
}

/// Ranks of the same place in some groups hold the same part.
void add_ranks(std::vector<Ring>::iterator rings, const EpGroups& groups,
               const std::vector<int>& among, int first) {
  for (int r = 0; r < groups.size(); ++r) {
    for (const int group : among) {
      rings[r].emplace_back(first + groups.gpu(group, GpuId(r)).value);
    }
  }
}

/// Every GPU of a copy holds a part of its own.
void add_gpus(std::vector<Ring>& rings, int gpus, int first) {
  rings.resize(static_cast<std::size_t>(gpus));
  for (int g = 0; g < gpus; ++g) rings[static_cast<std::size_t>(g)].emplace_back(first + g);
}

/// The parts of rings that are within copies of the state, or between them: [ring x part].
std::vector<Ring> parts_of(const std::vector<Ring>& rings, const ExpertRing& ring) {
  if (ring.among == ExpertRing::Among::all) return rings;
  std::vector<Ring> parts;
  for (const Ring& all : rings) {
    std::map<int, Ring> by_copy;
    for (const GpuId gpu : all) by_copy[(*ring.copy_of)[gpu.index()]].push_back(gpu);
    if (ring.among == ExpertRing::Among::copy) {
      for (auto& [copy, members] : by_copy) parts.push_back(std::move(members));
      continue;
    }
    for (std::size_t place = 0; place < by_copy.begin()->second.size(); ++place) {
      Ring& equal = parts.emplace_back();
      for (const auto& [copy, members] : by_copy) equal.push_back(members.at(place));
    }
  }
  return parts;
}

std::int64_t divided_up(std::int64_t value, std::int64_t by) { return (value + by - 1) / by; }

/// Rings that each carry an equal part of what their holders pass round.
struct Channels {
  std::vector<Ring> rings;
  std::int64_t parts = 1;  // of the bytes of every holder
};

/// Holders pass their bytes on through the nodes on as many rings as the node with the fewest of
/// them has, as dense parameters do. Where numbers differ, a ring counts several times.
Channels channels_of(const std::vector<Ring>& holders, const EpGroups& groups) {
  std::vector<std::vector<Ring>> through;
  Channels channels;
  for (const Ring& members : holders) {
    std::vector<int> nodes;
    for (const GpuId gpu : members) {
      const int copy = gpu.value / groups.gpus(), own = gpu.value % groups.gpus();
      nodes.push_back(copy * groups.gpus() + groups.network().host_of(GpuId(own)));
    }
    through.push_back(rings_through(by_node(nodes)));
    channels.parts = std::lcm(channels.parts, std::ssize(through.back()));
  }
  for (std::size_t h = 0; h < holders.size(); ++h) {
    const std::int64_t times = channels.parts / std::ssize(through[h]);
    for (Ring ring : through[h]) {
      for (GpuId& member : ring) member = holders[h][member.index()];
      channels.rings.insert(channels.rings.end(), static_cast<std::size_t>(times), ring);
    }
  }
  return channels;
}

}  // namespace

SlotTable state_homes(const LayerDecision& decision) {
  return decision.gradient_homes.empty() ? decision.assignment.placement().table()
                                         : decision.gradient_homes;
}

std::optional<ParamExchange> expert_ring(const PlacementContext& context,
                                         const std::vector<const LayerDecision*>& copies,
                                         const ExpertRing& ring, const TensorSharers& sharers) {
  const EpGroups& groups = context.groups;
  const std::int64_t expert = context.model.expert_parameters();
  const auto by_part = groups_by_part(groups, sharers);
  std::int64_t part = expert;  // parameters that a ring passes round
  std::vector<Ring> rings;
  int first = 0;
  // The rings of a part of the tensors, `each` of them.
  const auto of_part = [&](std::size_t tensors, int each) {
    rings.resize(by_part.size() * static_cast<std::size_t>(each));
    return rings.begin() + static_cast<std::ptrdiff_t>(tensors) * each;
  };
  for (const LayerDecision* decision : copies) {
    switch (decision->gradients) {
      case GradientLayout::homes:
        for (std::size_t t = 0; t < by_part.size(); ++t) {
          add_homes(of_part(t, context.experts), context, *decision, by_part[t], first);
        }
        break;
      case GradientLayout::sharded:
        for (std::size_t t = 0; t < by_part.size(); ++t) {
          add_ranks(of_part(t, groups.size()), groups, by_part[t], first);
        }
        part = divided_up(expert, groups.size()) * context.experts;
        break;
      case GradientLayout::summed:
        add_gpus(rings, groups.gpus(), first);
        part = divided_up(expert, groups.gpus()) * context.experts;
        break;
    }
    first += groups.gpus();
  }
  const std::int64_t all = std::ssize(rings.front());
  rings = parts_of(rings, ring);
  const std::int64_t holders = std::ssize(rings.front());
  if (ring.among == ExpertRing::Among::copies) part = divided_up(part, all / holders);
  if (holders == 1 || ring.bytes == 0) return std::nullopt;
  const Channels channels = channels_of(rings, groups);
  const Bytes shard(divided_up(divided_up(part, holders) * ring.bytes, channels.parts));
  const auto passed = static_cast<std::uint32_t>(ring.times * (holders - 1));
  return ParamExchange{ring.name, ring_traffic(channels.rings, first, shard, passed), {}, {}};
}

std::optional<ParamExchange> gradient_sum(const PlacementContext& context,
                                          const LayerDecision& decision) {
  return expert_ring(context, {&decision}, {"sum-gradients", context.state.gradient, 2});
}

}  // namespace moesim
