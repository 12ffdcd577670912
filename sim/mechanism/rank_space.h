// SPDX-License-Identifier: Apache-2.0
// Where the ranks of one EP group are: all that a policy knows of a cluster.
#pragma once

#include <vector>

#include "sim/base/types.h"

namespace moesim {

/// Disjoint lists of ranks, each ascending.
using Communicators = std::vector<std::vector<GpuId>>;

/// What one level of a cluster makes of the ranks of an EP group: groups that share a node, a
/// switch, a data center.
class RankLevel {
 public:
  /// Facts about a level that all EP groups share, because they run one program.
  struct Facts {
    bool equal = true;          // its groups have one size, in this EP group and every other
    bool splits_hosts = false;  // in some EP group ranks of one host are in different groups
  };
  /// `groups` hold every rank once and are within those of `outer` (nullptr: all ranks).
  RankLevel(Communicators groups, const RankLevel* outer, Facts facts);

  const Communicators& groups() const { return groups_; }
  int size() const { return static_cast<int>(groups_.size()); }
  /// The ranks of equal index in the groups that one outer group has; all ranks of the outer group
  /// if groups differ in size.
  const Communicators& across() const { return across_; }
  const Facts& facts() const { return facts_; }

  int group_of(GpuId rank) const { return group_of_[rank.index()]; }
  const std::vector<GpuId>& members(int group) const {
    return groups_[static_cast<std::size_t>(group)];
  }
  /// The member of a group that has the index of `rank` in its own (modulo the size of a smaller
  /// group): who a row goes to first when it changes groups.
  GpuId counterpart(GpuId rank, int group) const {
    const auto& all = members(group);
    return all[static_cast<std::size_t>(index_of_[rank.index()]) % all.size()];
  }
  /// The same for the group of `target`.
  GpuId relay(GpuId holder, GpuId target) const { return counterpart(holder, group_of(target)); }

 private:
  Communicators groups_, across_;
  Facts facts_;
  std::vector<int> group_of_;  // [rank]
  std::vector<int> index_of_;  // [rank] place within its group
};

/// The ranks 0 .. size - 1 of one EP group.
class RankSpace {
 public:
  /// Facts of all EP groups together.
  struct HostFacts {
    bool spread;  // some EP group has several hosts
    bool shared;  // some host has several ranks of an EP group
  };
  /// `levels` nest, coarsest first; the first is all ranks.
  RankSpace(std::vector<RankLevel> levels, RankLevel hosts, HostFacts facts);

  int size() const { return static_cast<int>(all().front().size()); }
  /// One list of all ranks.
  const Communicators& all() const { return levels_.front().groups(); }

  /// Nested levels, the whole group included. Levels that cut no EP group finer than the level
  /// before, or cut all of them down to single ranks, are left out: depth() is the largest number
  /// of phases that a hierarchical exchange has, and the same in all EP groups.
  int depth() const { return static_cast<int>(levels_.size()); }
  const RankLevel& level(int i) const { return levels_[static_cast<std::size_t>(i)]; }
  /// Whether the groups of every level have one size.
  bool uniform() const;

  /// The ranks that share a host, whether or not hosts are a level.
  const RankLevel& hosts() const { return hosts_; }
  bool spread() const { return facts_.spread; }
  bool shared() const { return facts_.shared; }
  /// The same ranks with hosts as the only level below all of them, for what tells a node's links
  /// from those between nodes and no more; of depth 1 unless hosts cut the ranks, and not all of
  /// them down to single ones.
  RankSpace by_hosts() const;

 private:
  std::vector<RankLevel> levels_;
  RankLevel hosts_;
  HostFacts facts_;
};

}  // namespace moesim
