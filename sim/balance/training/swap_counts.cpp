// SPDX-License-Identifier: Apache-2.0
#include "sim/balance/training/swap_counts.h"

#include <algorithm>
#include <stdexcept>

namespace moesim {
namespace {

/// The rows that a pass adds to, and which of them a token's groups use.
struct Rows {
  std::size_t experts;
  std::vector<std::uint32_t>& table;   // [experts + groups][experts]
  std::vector<std::uint32_t>& shared;  // [group] tokens with two or more experts there
  const std::vector<int>& group_of;
  std::vector<std::uint32_t> newest = {};   // [group] the newest token that touched it
  std::vector<std::uint32_t> row_of = {};   // [group] that token's row
  std::vector<std::uint32_t> touched = {};  // that token's groups; one more than it has choices
};

/// `fixed_k`: the compile-time number of choices, 0 when it is only known at run time.
template <class Id, int fixed_k>
void add_tokens(const Id* ids, std::int64_t tokens, int top_k, std::uint32_t& token, Rows& rows) {
  const int choices = fixed_k > 0 ? fixed_k : top_k;
  for (const Id* end = ids + tokens * choices; ids != end; ids += choices) {
    ++token;
    std::size_t groups = 0;
    for (int k = 0; k < choices; ++k) {
      const std::size_t expert = ids[k];
      const auto group = static_cast<std::size_t>(rows.group_of[expert]);
      const bool first = rows.newest[group] != token;
      rows.newest[group] = token;
      rows.row_of[group] = static_cast<std::uint32_t>(first ? expert : rows.experts + group);
      rows.touched[groups] = static_cast<std::uint32_t>(group);  // kept when it is the first
      groups += first;
    }
    for (std::size_t i = 0; i < groups; ++i) {
      const std::size_t row = rows.row_of[rows.touched[i]];
      std::uint32_t* counts = rows.table.data() + row * rows.experts;
      for (int k = 0; k < choices; ++k) ++counts[ids[k]];
      if (row >= rows.experts) ++rows.shared[rows.touched[i]];
    }
  }
}

void add_run(const IdRows& ids, const TokenRun& run, std::uint32_t& token, Rows& rows) {
  const int k = ids.top_k();
  if (ids.width() == 1) {
    const std::uint8_t* first = static_cast<const std::uint8_t*>(ids.data()) + run.first * k;
    switch (k) {
      case 2:
        return add_tokens<std::uint8_t, 2>(first, run.count, k, token, rows);
      case 4:
        return add_tokens<std::uint8_t, 4>(first, run.count, k, token, rows);
      case 6:
        return add_tokens<std::uint8_t, 6>(first, run.count, k, token, rows);
      case 8:
        return add_tokens<std::uint8_t, 8>(first, run.count, k, token, rows);
      default:
        return add_tokens<std::uint8_t, 0>(first, run.count, k, token, rows);
    }
  }
  const std::uint16_t* wide = static_cast<const std::uint16_t*>(ids.data()) + run.first * k;
  std::vector<std::uint16_t> kept(static_cast<std::size_t>(k));
  for (std::int64_t t = 0; t < run.count; ++t, wide += k) {
    const auto end = std::remove_copy(wide, wide + k, kept.begin(), IdRows::dropped);
    add_tokens<std::uint16_t, 0>(kept.data(), 1, static_cast<int>(end - kept.begin()), token, rows);
  }
}

}  // namespace

SwapCounts::SwapCounts(std::vector<int> group_of, int groups, const IdRows& ids,
                       std::span<const TokenRun> runs)
    : group_of_(std::move(group_of)),
      experts_(group_of_.size()),
      groups_(static_cast<std::size_t>(groups)),
      rows_((experts_ + groups_) * experts_),
      touching_(groups_),
      with_group_(experts_ * groups_) {
  std::vector<std::uint32_t> shared(groups_);
  Rows rows{experts_, rows_, shared, group_of_};
  rows.newest.assign(groups_, 0);
  rows.row_of.assign(groups_, 0);
  rows.touched.assign(static_cast<std::size_t>(ids.top_k()) + 1, 0);
  std::uint32_t token = 0;
  for (const TokenRun& run : runs) {
    if (run.count > std::int64_t{0xffffffff} - token) {
      throw std::overflow_error("more than 2^32 - 1 tokens");
    }
    add_run(ids, run, token, rows);
  }
  for (std::size_t row = 0; row < experts_ + groups_; ++row) {
    const std::size_t group =
        row < experts_ ? static_cast<std::size_t>(group_of_[row]) : row - experts_;
    touching_[group] += row < experts_ ? rows_[row * experts_ + row] : shared[group];
    for (std::size_t e = 0; e < experts_; ++e) {
      with_group_[e * groups_ + group] += rows_[row * experts_ + e];
    }
  }
}

}  // namespace moesim
