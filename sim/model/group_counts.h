// SPDX-License-Identifier: Apache-2.0
// How many tokens touch each group of each level: the input of HierMoE's cost model
// (arXiv 2508.09591). A token that touches a group sends one row there with deduplication.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/model/collective_cost.h"

namespace moesim {

/// What n, "the" send buffer of a stage, means when ranks send unequal amounts. The paper leaves it
/// open.
/// - mean: the average rank, by the busiest group. All ranks know it from one all-reduced vector
/// per
///   level.
/// - max: the slowest rank, as with padded buffers; never less than mean.
enum class CountReading { mean, max };

/// Rows of a token at a level: HD sends one per group that it touches, H one per choice.
enum class Copies { per_group, per_choice };

/// Counts of the tokens of one layer over the G ranks of nested groups. Levels are 1..D, where
/// level D stands for the GPUs. The mean reading keeps only sums over all ranks: less memory, and
/// all it needs.
class GroupCounts {
 public:
  /// The ranks are first .. first + G - 1. Throws Error when the groups do not nest.
  GroupCounts(Nesting nesting, CountReading reading, GpuId first = GpuId(0));

  /// Adds that `choices` of a rank's tokens go to a GPU ...
  void add_choices(GpuId source, GpuId target, std::uint32_t choices);
  /// ... and `tokens` touch a group of a level.
  void add_touching(GpuId source, int level, int group, std::uint32_t tokens);
  /// The group of one of the ranks at a level.
  int group_of(int level, GpuId rank) const {
    return at(level).group_of[static_cast<std::size_t>(rank.value - first_)];
  }

  /// C[l][j]: tokens that touch group j of a level, or choices that go there, of ranks whose local
  /// index at level `within` is l; within = D: of all ranks, P[j]. A rank with that index sends
  /// C[l][j] rows to group j of its own level-`within` group in the stage from `within` to `level`:
  /// Inter-level-i is (i-1, i), Intra-level-i is (i, D), flat is (0, D). Throws std::logic_error
  /// under the mean reading, unless within is level D.
  std::vector<std::vector<std::int64_t>> by_index(int within, int level, Copies copies) const;

  /// n / (M v) of every stage under the reading.
  StageRows stage_rows(Copies copies) const;

  const Nesting& nesting() const { return nesting_; }

 private:
  /// The counts of one level: [source, or 0 under the mean reading][group], flat.
  struct LevelCounts {
    std::vector<int> group_of;  // [gpu]
    std::vector<std::uint32_t> tokens;
  };
  const LevelCounts& at(int level) const { return levels_[static_cast<std::size_t>(level - 1)]; }
  /// The row of tables that a source adds to.
  std::size_t row_of(GpuId source) const {
    return reading_ == CountReading::max ? static_cast<std::size_t>(source.value - first_) : 0;
  }
  double rows(int within, int level, Copies copies) const;

  Nesting nesting_;
  CountReading reading_;
  std::int32_t first_;
  std::vector<LevelCounts> levels_;     // [level - 1]
  std::vector<std::uint32_t> choices_;  // as LevelCounts::tokens of level D
};

}  // namespace moesim
