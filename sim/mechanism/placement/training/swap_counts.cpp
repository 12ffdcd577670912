// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/training/swap_counts.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "sim/plan/plan.h"
#include "sim/trace/id_counts.h"

namespace moesim {

PairedChoices::PairedChoices(int experts, const IdRows& ids, std::span<const TokenRun> runs)
    : choosing_(static_cast<std::size_t>(experts)), both_(choosing_.size() * choosing_.size()) {
  if (tokens_of(runs) > std::int64_t{0xffffffff})
    throw std::overflow_error("more than 2^32 - 1 tokens");
  const std::size_t n = choosing_.size();
  // Ids of 8 bits are never dropped: each is in a pair with all others of its row.
  const bool in_pairs = ids.width() == 1 && ids.top_k() > 1;
  PairCounter counter(n);
  for (const TokenRun& run : runs) {
    with_ids(ids, run.first, run.count, [&](auto rows) {
      if (!in_pairs) count_ids(rows, std::span(choosing_));
      counter.add(rows, ids.top_k(), both_);
    });
  }
  counter.finish(both_);
  for (std::size_t e = 0; e < n; ++e) {  // each pair was counted in one of its two orders
    for (std::size_t f = e + 1; f < n; ++f) {
      both_[e * n + f] = both_[f * n + e] = both_[e * n + f] + both_[f * n + e];
    }
  }
  for (std::size_t e = 0; e < n; ++e) {
    const auto row = both_.begin() + static_cast<std::ptrdiff_t>(e * n);
    if (in_pairs) {
      const auto pairs =
          std::accumulate(row, row + static_cast<std::ptrdiff_t>(n), std::int64_t{0});
      choosing_[e] = static_cast<std::uint32_t>(pairs / (ids.top_k() - 1));
    }
    row[static_cast<std::ptrdiff_t>(e)] = choosing_[e];
  }
}

namespace {

bool any_shares(const std::vector<int>& group_of, std::size_t groups) {
  std::vector<std::uint32_t> held(groups);
  for (const int group : group_of) ++held[group];
  return std::any_of(held.begin(), held.end(), [](std::uint32_t n) { return n > 1; });
}

/// Whether less than half of the choices of even routing are the only ones of their groups.
bool few_alone(std::size_t groups, int top_k) {
  return std::pow(1 - 1.0 / static_cast<double>(groups), top_k - 1) < 0.5;
}

}  // namespace

SwapCounts::SwapCounts(std::vector<int> group_of, int groups, const IdRows& ids,
                       std::span<const TokenRun> runs, const PairedChoices& choices)
    : group_of_(std::move(group_of)),
      experts_(group_of_.size()),
      columns_(experts_ + 1),
      groups_(static_cast<std::size_t>(groups)),
      touching_(groups_),
      with_group_(experts_ * groups_),
      alone_with_(experts_ * columns_) {
  const bool shares = any_shares(group_of_, groups_);
  adds_alone_ = shares && groups_ <= 64 && few_alone(groups_, ids.top_k());
  for (std::size_t e = 0; e < experts_ && !adds_alone_; ++e) {
    for (std::size_t f = 0; f < experts_; ++f) {
      alone_with_[e * columns_ + f] = choices.both(e, f);
    }
  }
  if (shares) count_rows(ids, runs);
  sum_groups(choices);
}

void SwapCounts::count_rows(const IdRows& ids, std::span<const TokenRun> runs) {
  bit_of_.assign(columns_, 0);
  listed_.resize(static_cast<std::size_t>(rows_at_once * ids.top_k() + 1));
  crowded_.resize(rows_at_once + 1);
  inside_.resize(groups_);
  for (std::size_t e = 0; e < experts_; ++e) bit_of_[e] = std::uint64_t{1} << group_of_[e] % 64;
  const int k = ids.top_k();
  for (const TokenRun& run : runs) {
    with_ids(ids, run.first, run.count, [&](auto rows) {
      k == 8 ? take_rows<8>(rows.data(), run.count, k) : take_rows<0>(rows.data(), run.count, k);
    });
  }
}

/// Whether choices share a group is as often true as not, at which branches are slow: those that do
/// are listed without any, for some rows, and then taken back (or the others, and then added).
template <int fixed_k, class Id>
void SwapCounts::take_rows(const Id* ids, std::int64_t rows, int top_k) {
  const int choices = fixed_k > 0 ? fixed_k : top_k;
  const std::uint32_t each = adds_alone_ ? 1 : ~std::uint32_t{0};
  for (; rows > 0; rows -= rows_at_once, ids += rows_at_once * choices) {
    list_choices<fixed_k>(ids, static_cast<int>(std::min<std::int64_t>(rows, rows_at_once)), top_k);
    for (const Choice& choice : std::span(listed_).first(listed_choices_)) {
      const Id* const row = ids + choice.row;
      std::uint32_t* const alone = alone_with_.data() + column(row[choice.k]) * columns_;
#pragma GCC unroll 8
      for (int k = 0; k < choices; ++k) alone[column(row[k])] += each;
    }
    for (const std::uint16_t row : std::span(crowded_).first(crowds_)) {
      add_excess<fixed_k>(ids + row, top_k);
    }
  }
}

template <int fixed_k, class Id>
void SwapCounts::list_choices(const Id* ids, int rows, int top_k) {
  const int choices = fixed_k > 0 ? fixed_k : top_k;
  const std::uint64_t* const bit_of = bit_of_.data();
  const std::uint64_t others = adds_alone_ ? ~std::uint64_t{0} : 0;
  std::size_t listed = 0, crowds = 0;
  for (int row = 0; row < rows * choices; row += choices) {
    std::array<std::uint64_t, max_top_k> bits;
    std::uint64_t once = 0, twice = 0, thrice = 0;
#pragma GCC unroll 8
    for (int k = 0; k < choices; ++k) {
      bits[k] = bit_of[column(ids[row + k])];
      thrice |= twice & bits[k];
      twice |= once & bits[k];
      once |= bits[k];
    }
#pragma GCC unroll 8
    for (int k = 0; k < choices; ++k) {
      listed_[listed] = {static_cast<std::uint16_t>(row), static_cast<std::uint16_t>(k)};
      listed += (bits[k] & (twice ^ others)) != 0 ? 1 : 0;
    }
    crowded_[crowds] = static_cast<std::uint16_t>(row);
    crowds += thrice != 0 ? 1 : 0;
  }
  if (groups_ > 64) {  // some share only a bit
    const auto other = [&](const Choice& choice) {
      const Groups groups = groups_of_row(ids + choice.row, top_k);
      return std::count(groups.begin(), groups.begin() + top_k, groups[choice.k]) < 2;
    };
    const auto end = listed_.begin() + static_cast<std::ptrdiff_t>(listed);
    listed =
        static_cast<std::size_t>(std::remove_if(listed_.begin(), end, other) - listed_.begin());
  }
  listed_choices_ = listed;
  crowds_ = crowds;
}

/// The group of each choice, a negative number of a dropped one.
template <class Id>
SwapCounts::Groups SwapCounts::groups_of_row(const Id* row, int top_k) const {
  Groups groups;
  for (int k = 0; k < top_k; ++k) {
    const std::size_t c = column(row[k]);
    groups[k] = c < experts_ ? group_of_[c] : -1 - k;
  }
  return groups;
}

/// Counts of an expert with its own group are not used (sum_groups).
template <int fixed_k, class Id>
void SwapCounts::add_excess(const Id* row, int top_k) {
  const int choices = fixed_k > 0 ? fixed_k : top_k;
  const Groups groups = groups_of_row(row, choices);
  for (int k = 0; k < choices; ++k) {
    if (groups[k] >= 0) ++inside_[groups[k]];
  }
  for (int k = 0; k < choices; ++k) {
    if (groups[k] < 0) continue;
    const int excess = std::exchange(inside_[groups[k]], 0) - 2;  // at its first choice
    if (excess <= 0) continue;
    touching_[groups[k]] += excess;
    for (int other = 0; other < choices; ++other) {
      if (groups[other] < 0) continue;
      with_group_[column(row[other]) * groups_ + static_cast<std::size_t>(groups[k])] += excess;
    }
  }
}

/// Over a group's experts, the tokens that choose them and those in which each is the only one add
/// up to 2 for a token with one of them, and to m for one with m: twice the tokens, and the excess.
void SwapCounts::sum_groups(const PairedChoices& choices) {
  for (std::int64_t& excess : touching_) excess = -excess;
  for (std::int64_t& excess : with_group_) excess = -excess;
  for (std::size_t e = 0; e < experts_; ++e) {
    const int group = group_of_[e];
    std::uint32_t* const alone = alone_with_.data() + e * columns_;
    touching_[group] += std::int64_t{choices.choosing(e)} + alone[e];
    for (std::size_t f = 0; f < experts_; ++f) {
      if (group_of_[f] == group) {
        alone[f] = f == e ? alone[f] : 0;
      } else {
        with_group_[f * groups_ + static_cast<std::size_t>(group)] +=
            std::int64_t{choices.both(e, f)} + alone[f];
      }
    }
  }
  for (std::int64_t& twice : touching_) twice /= 2;
  for (std::int64_t& twice : with_group_) twice /= 2;
  for (std::size_t e = 0; e < experts_; ++e) {
    with_group_[e * groups_ + static_cast<std::size_t>(group_of_[e])] = choices.choosing(e);
  }
}

}  // namespace moesim
