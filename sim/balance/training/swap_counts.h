// SPDX-License-Identifier: Apache-2.0
// What exchanging two experts does to the deduplicated token counts of one level (HierMoE, arXiv
// 2508.09591, expert swap), for all pairs from one pass over the tokens.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/trace/batches.h"

namespace moesim {

/// Tokens per group, and per pair of experts what the closed form of an exchange needs. Every
/// expert lies in one group; a token chooses an expert at most once, and dropped choices choose
/// none.
class SwapCounts {
 public:
  /// Counts the tokens of `runs`; group_of[expert] < groups.
  SwapCounts(std::vector<int> group_of, int groups, const IdRows& ids,
             std::span<const TokenRun> runs);

  int experts() const { return static_cast<int>(experts_); }
  int group_of(int expert) const { return group_of_[static_cast<std::size_t>(expert)]; }
  /// p: tokens that touch each group.
  const std::vector<std::int64_t>& touching() const { return touching_; }
  /// N: tokens that choose the expert.
  std::int64_t choosing(int e) const { return with_group(e, group_of(e)); }
  /// S: tokens whose only expert in e's group is e.
  std::int64_t alone(int e) const { return alone_with(e, e); }
  /// H: tokens that choose e and touch the group.
  std::int64_t with_group(int e, int group) const {
    return with_group_[static_cast<std::size_t>(e) * groups_ + static_cast<std::size_t>(group)];
  }
  /// B: tokens that choose e and f where e is the only one of its group.
  std::int64_t alone_with(int e, int f) const {
    return rows_[static_cast<std::size_t>(e) * experts_ + static_cast<std::size_t>(f)];
  }
  /// Z: tokens that touch the group of `leaving` once it exchanges slots with `entering`, of any
  /// group.
  std::int64_t touching_after(int leaving, int entering) const {
    const int group = group_of(leaving);
    const std::int64_t before = touching_[static_cast<std::size_t>(group)];
    if (group == group_of(entering)) return before;  // the closed form would drop tokens that stay
    return before - (alone(leaving) - alone_with(leaving, entering)) +
           (choosing(entering) - with_group(entering, group));
  }

 private:
  std::vector<int> group_of_;
  std::size_t experts_;
  std::size_t groups_;
  /// Row e: tokens where e is alone in its group; row experts + g: tokens with two or more experts
  /// in group g; each by the experts that those tokens choose. Every token adds itself to one row
  /// per group that it touches, and p, N, S and H are sums of rows: half the additions of counting
  /// B and H apart.
  std::vector<std::uint32_t> rows_;
  std::vector<std::int64_t> touching_;
  std::vector<std::uint32_t> with_group_;
};

}  // namespace moesim
