// SPDX-License-Identifier: Apache-2.0
// The nested groups of an expert-parallel group's ranks: what hierarchical dispatches travel along.
#pragma once

#include <vector>

#include "sim/policy/dispatch.h"

namespace moesim {

/// Levels of a topology as every run of `ep` ranks sees them. Level 0 is the whole run; level i has
/// U[i] groups per run; levels that cut a run no finer than the level before, or down to single
/// GPUs, are left out.
class Hierarchy {
 public:
  Hierarchy(const Topology& topology, int ep);

  /// Largest number of phases D: one inter-level phase per level and the last inside its groups.
  int depth() const { return static_cast<int>(levels_.size()); }
  /// Whether the groups of every level have one size.
  bool uniform() const;
  /// U[i]: groups per run.
  int groups_per_run(int level) const;
  /// The groups of all runs at a level.
  const Communicators& groups(int level) const { return at(level).groups; }
  /// Communicators of Inter-level-i: same level-(i-1) group, same index within the level-i group.
  const Communicators& inter(int level) const { return at(level).inter; }
  /// Group of a GPU among groups(level).
  int group_of(int level, GpuId gpu) const { return at(level).group_of[gpu.index()]; }
  /// Where a row at `holder` bound for `target` goes at a level: to the member of the target's
  /// group with the holder's index (modulo the size of a smaller group).
  GpuId relay(int level, GpuId holder, GpuId target) const {
    const Level& l = at(level);
    const auto& members = l.groups[static_cast<std::size_t>(l.group_of[target.index()])];
    return members[static_cast<std::size_t>(l.index_of[holder.index()]) % members.size()];
  }

 private:
  struct Level {
    Communicators groups;
    Communicators inter;
    std::vector<int> group_of;  // [gpu]
    std::vector<int> index_of;  // [gpu] place within its group
  };
  const Level& at(int level) const { return levels_[static_cast<std::size_t>(level)]; }
  void add_level(const Communicators& groups, int gpus);

  int runs_ = 0;
  std::vector<Level> levels_;
};

}  // namespace moesim
