// SPDX-License-Identifier: Apache-2.0
// The token exchange of HybridEP (arXiv 2510.19470): level by level, coarsest first, a row goes to
// the worker of its own place in the target's domain; one row per choice.
#include <fmt/format.h>

#include "sim/mechanism/evaluate.h"
#include "sim/mechanism/mechanisms.h"
#include "sim/mechanism/placement/hybrid/hybridep_levels.h"

namespace moesim {
namespace {

/// One level: ranks whose places differ only at this level exchange.
struct HopLevel {
  int workers = 1;
  int stride = 1;  // ranks per worker
  int number = 0;

  int place(GpuId rank) const { return rank.value / stride % workers; }
};

/// Hops over some levels. The hop of a level moves one coordinate to that of the target: if the
/// target is the serving rank, it is at the sender's offset in the domain of the expert's home.
class DomainHops {
 public:
  DomainHops(const RankSpace& ranks, std::vector<HopLevel> levels, bool only_level)
      : ranks_(ranks.size()), levels_(std::move(levels)), only_level_(only_level) {}

  DispatchShape shape(const MoeModel& model) const {
    DispatchShape shape(model);
    for (const HopLevel& level : levels_) {
      Communicators groups;
      for (int r = 0; r < ranks_; ++r) {
        if (level.place(GpuId(r)) != 0) continue;
        auto& group = groups.emplace_back();
        for (int w = 0; w < level.workers; ++w) group.emplace_back(r + w * level.stride);
      }
      shape.add(only_level_ ? "alltoall" : fmt::format("level-{}", level.number),
                std::move(groups));
    }
    return shape;
  }

  bool merges() const { return false; }
  template <class Hops>
  void next(int phase, GpuId holder, Choices choices, const GpuId* target, Hops& hops) const {
    const HopLevel& level = at(phase);
    for_each_choice(choices, [&](int k) {
      const int steps = level.place(target[k]) - level.place(holder);
      hops.add(GpuId(holder.value + steps * level.stride), Choices{1} << k);
    });
  }

 private:
  const HopLevel& at(int phase) const { return levels_[static_cast<std::size_t>(phase)]; }
  int ranks_;
  std::vector<HopLevel> levels_;
  bool only_level_;
};

/// The levels of the ranks of an EP group.
std::vector<HopLevel> hop_levels(const std::vector<int>& workers, int ranks) {
  std::vector<HopLevel> levels;
  int stride = ranks;
  for (const int count : workers) {
    stride /= count;
    levels.push_back({count, stride, static_cast<int>(levels.size())});
  }
  return levels;
}

/// The levels that a choice crosses, as bits.
std::size_t levels_used(const std::vector<HopLevel>& levels, const EpGroups& groups,
                        const Assignment& assignment) {
  const Placement& placement = assignment.placement();
  std::size_t used = 0;
  const auto look = [&](GpuId source, GpuId target) {
    for (std::size_t l = 0; l < levels.size(); ++l) {
      const bool crosses =
          levels[l].place(groups.rank_of(source)) != levels[l].place(groups.rank_of(target));
      if (crosses) used |= std::size_t{1} << l;
    }
  };
  for (std::size_t g = 0; g < static_cast<std::size_t>(placement.gpus()); ++g) {
    const GpuId source(static_cast<std::int64_t>(g));
    for (int e = 0; e < placement.experts(); ++e) {
      if (!assignment.split()) {
        look(source, assignment.gpu(source, ExpertId(e)));
        continue;
      }
      for (const Share& share : assignment.shares(source, ExpertId(e))) {
        look(source, placement.gpu_of(share.slot));
      }
    }
  }
  return used;
}

/// Leaves out the levels over which no rank has an expert to reach, as domains of the whole level
/// make them: nothing is exchanged or relayed there.
std::unique_ptr<Dispatch> over_used_levels(const DispatchContext& context,
                                           const std::vector<HopLevel>& levels) {
  std::vector<std::unique_ptr<Dispatch>> by_use;  // by the set of levels, as bits
  for (std::size_t used = 0; used < (std::size_t{1} << levels.size()); ++used) {
    std::vector<HopLevel> some;
    for (std::size_t l = 0; l < levels.size(); ++l) {
      if ((used >> l & 1) != 0) some.push_back(levels[l]);
    }
    if (some.empty()) some.push_back(levels.back());
    by_use.push_back(in_every_group(context, [&](const RankSpace& ranks) {
      return DomainHops(ranks, some, levels.size() == 1);
    }));
  }
  return std::make_unique<Dispatch>(std::move(by_use),
                                    [levels, groups = context.groups](const LayerTokens& tokens) {
                                      return levels_used(levels, groups, tokens.assignment);
                                    });
}

}  // namespace

// levels: cluster or flat, as of the placement hybridep.
DispatchMaker read_hybridep_dispatch(const YamlMap& params) {
  const DomainLevels levels = read_domain_levels(params);
  return [levels](const DispatchContext& c) {
    const int ranks = c.groups.size();
    return over_used_levels(c, hop_levels(domain_workers(c.groups.ranks(0), levels), ranks));
  };
}

}  // namespace moesim
