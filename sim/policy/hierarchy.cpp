// SPDX-License-Identifier: Apache-2.0
#include "sim/policy/hierarchy.h"

#include <algorithm>
#include <map>

namespace moesim {
namespace {

/// The groups of one topology level, cut at the borders of the runs.
Communicators cut(const moesim::Level& level, int gpus, int ep) {
  std::map<std::pair<int, int>, std::vector<GpuId>> groups;
  for (int g = 0; g < gpus; ++g) {
    groups[{g / ep, level.group_of[static_cast<std::size_t>(g)]}].emplace_back(g);
  }
  Communicators result;
  for (auto& [key, members] : groups) result.push_back(std::move(members));
  return result;
}

bool single_gpus(const Communicators& groups) {
  return std::all_of(groups.begin(), groups.end(), [](const auto& g) { return g.size() == 1; });
}

}  // namespace

Hierarchy::Hierarchy(const Topology& topology, int ep) {
  const int gpus = topology.gpu_count();
  runs_ = gpus / ep;
  add_level(runs_of(gpus, ep), gpus);
  for (const moesim::Level& level : topology.levels()) {
    const Communicators groups = cut(level, gpus, ep);
    if (groups.size() == levels_.back().groups.size() || single_gpus(groups)) continue;
    add_level(groups, gpus);
  }
}

bool Hierarchy::uniform() const {
  return std::all_of(levels_.begin(), levels_.end(), [](const Level& level) {
    return std::all_of(level.groups.begin(), level.groups.end(), [&](const auto& group) {
      return group.size() == level.groups.front().size();
    });
  });
}

int Hierarchy::groups_per_run(int level) const {
  return static_cast<int>(at(level).groups.size()) / runs_;
}

void Hierarchy::add_level(const Communicators& groups, int gpus) {
  Level level{groups, {}, {}, {}};
  level.group_of.resize(static_cast<std::size_t>(gpus));
  level.index_of.resize(static_cast<std::size_t>(gpus));
  for (std::size_t g = 0; g < groups.size(); ++g) {
    for (std::size_t i = 0; i < groups[g].size(); ++i) {
      level.group_of[groups[g][i].index()] = static_cast<int>(g);
      level.index_of[groups[g][i].index()] = static_cast<int>(i);
    }
  }
  if (!levels_.empty()) {
    // Where groups differ in size, indices wrap around and all of the outer group exchanges.
    const bool uniform = std::all_of(groups.begin(), groups.end(), [&](const auto& g) {
      return g.size() == groups.front().size();
    });
    std::map<std::pair<int, int>, std::vector<GpuId>> inter;
    for (int gpu = 0; gpu < gpus; ++gpu) {
      const auto g = static_cast<std::size_t>(gpu);
      inter[{levels_.back().group_of[g], uniform ? level.index_of[g] : 0}].emplace_back(gpu);
    }
    for (auto& [key, members] : inter) level.inter.push_back(std::move(members));
  }
  levels_.push_back(std::move(level));
}

}  // namespace moesim
