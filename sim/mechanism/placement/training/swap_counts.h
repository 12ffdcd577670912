// SPDX-License-Identifier: Apache-2.0
// What exchanging two experts does to the deduplicated token counts of one level (HierMoE, arXiv
// 2508.09591, expert swap), for all pairs from one pass over the tokens.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "sim/plan/plan.h"
#include "sim/trace/batches.h"

namespace moesim {

/// How many of some tokens choose each expert and each two of them: the same wherever the experts
/// are, and so for every level. A token chooses an expert at most once, and dropped choices choose
/// none.
class PairedChoices {
 public:
  PairedChoices(int experts, const IdRows& ids, std::span<const TokenRun> runs);

  std::size_t experts() const { return choosing_.size(); }
  std::uint32_t choosing(std::size_t e) const { return choosing_[e]; }
  /// Tokens that choose both; of one expert, tokens that choose it.
  std::uint32_t both(std::size_t e, std::size_t f) const { return both_[e * experts() + f]; }

 private:
  std::vector<std::uint32_t> choosing_;
  std::vector<std::uint32_t> both_;
};

/// Tokens per group, and per pair of experts what the closed form of an exchange needs. Every
/// expert is in one group.
class SwapCounts {
 public:
  /// Counts the tokens of `runs`, which are those of `choices`; group_of[expert] < groups.
  SwapCounts(std::vector<int> group_of, int groups, const IdRows& ids,
             std::span<const TokenRun> runs, const PairedChoices& choices);
  SwapCounts(const std::vector<int>& group_of, int groups, const IdRows& ids,
             std::span<const TokenRun> runs)
      : SwapCounts(group_of, groups, ids, runs,
                   PairedChoices(static_cast<int>(group_of.size()), ids, runs)) {}

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
  /// B: tokens that choose e and f if e is the only one of its group.
  std::int64_t alone_with(int e, int f) const {
    return alone_with_[static_cast<std::size_t>(e) * columns_ + static_cast<std::size_t>(f)];
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
  using Groups = std::array<int, max_top_k>;
  /// A choice that is not the only one of its group in its row; or one that is (adds_alone_).
  struct Choice {
    std::uint16_t row;  // where its ids begin
    std::uint16_t k;
  };
  static constexpr int rows_at_once = 128;

  void count_rows(const IdRows& ids, std::span<const TokenRun> runs);
  template <int fixed_k, class Id>
  void take_rows(const Id* ids, std::int64_t rows, int top_k);
  template <int fixed_k, class Id>
  void list_choices(const Id* ids, int rows, int top_k);
  template <class Id>
  Groups groups_of_row(const Id* row, int top_k) const;
  template <int fixed_k, class Id>
  void add_excess(const Id* row, int top_k);
  template <class Id>
  std::size_t column(Id id) const {
    return sizeof(Id) == 1 ? id : std::min<std::size_t>(id, experts_);
  }
  void sum_groups(const PairedChoices& choices);

  std::vector<int> group_of_;
  std::size_t experts_;
  std::size_t columns_;  // a column for every expert and one for dropped choices
  std::size_t groups_;
  bool adds_alone_ = false;
  /// First the excess of tokens with m > 2 experts in a group: m - 2.
  std::vector<std::int64_t> touching_;
  std::vector<std::int64_t> with_group_;  // [expert][group]
  /// First tokens that choose both. Tokens in which e is not the only one of its group are then
  /// taken back; or none, and tokens in which e is the only one are added, if these are fewer.
  std::vector<std::uint32_t> alone_with_;  // [expert][column]
  std::vector<std::uint64_t> bit_of_;      // [column] one of 64 bits for its group, 0 if dropped

  // Of the rows at hand; each list has one entry more than is ever counted.
  std::vector<Choice> listed_;
  std::size_t listed_choices_ = 0;
  std::vector<std::uint16_t> crowded_;  // rows that may have three of a group
  std::vector<int> inside_;             // [group] choices of a row, else 0
  std::size_t crowds_ = 0;
};

}  // namespace moesim
