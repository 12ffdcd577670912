// SPDX-License-Identifier: Apache-2.0
// Row counts of EP groups, kept for groups that hold the same tokens: a trace that repeats gives
// them to many groups of a layer, and stages of a pipeline replay the same recorded layers.
#pragma once

#include <cstddef>
#include <map>
#include <utility>
#include <vector>

#include "sim/mechanism/dispatch.h"

namespace moesim {

/// Counts of one layer's ids by one dispatch.
class CountedGroups {
 public:
  /// Those of a group before that has the same part of the tokens, rank by rank, the same slots
  /// for them, and nests alike; null if there is none.
  const RowCounts* find(const EpGroups& groups, int group, const GroupPart& part) const;
  /// The topology of `groups` must outlive it.
  void add(const EpGroups& groups, int group, GroupPart part, const RowCounts& counts);
  std::size_t size() const { return kept_.size(); }

 private:
  struct Counted {
    EpGroups groups;
    int group;
    GroupPart part;
    RowCounts counts;
  };
  std::vector<Counted> kept_;
};

/// Counts of the layers that planners for parts of one cluster replay, such as those of pipeline
/// stages. They are planners of one system, whose dispatches differ only in the ranks of groups.
class CountedLayers {
 public:
  /// Counts for ids that stay as they are, by one of a dispatch's options.
  CountedGroups& of(const void* ids, std::size_t option);
  /// For when other tokens follow.
  void forget() { layers_.clear(); }

 private:
  std::map<std::pair<const void*, std::size_t>, CountedGroups> layers_;
  CountedGroups last_;  // of layers that are not kept
};

}  // namespace moesim
