// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/training/swap_counts.h"

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>
#include <stdexcept>

#include "sim/plan/plan.h"
#include "sim/trace/id_counts.h"

namespace moesim {

PairedChoices::PairedChoices(int experts, const IdRows& ids, std::span<const TokenRun> runs)
    : choosing_(static_cast<std::size_t>(experts)), both_(choosing_.size() * choosing_.size()) {
  std::int64_t tokens = 0;
  for (const TokenRun& run : runs) tokens += run.count;
  if (tokens > std::int64_t{0xffffffff}) throw std::overflow_error("more than 2^32 - 1 tokens");
  const std::size_t n = choosing_.size();
  // Ids of 8 bits are never dropped: each is in a pair with all others of its row.
  const bool in_pairs = ids.width() == 1 && ids.top_k() > 1;
  for (const TokenRun& run : runs) {
    with_ids(ids, run.first, run.count, [&](auto rows) {
      if (!in_pairs) count_ids(rows, std::span(choosing_));
      count_pairs(rows, ids.top_k(), n, both_.data());
    });
  }
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

SwapCounts::SwapCounts(std::vector<int> group_of, int groups, const IdRows& ids,
                       std::span<const TokenRun> runs, const PairedChoices& choices)
    : group_of_(std::move(group_of)),
      experts_(group_of_.size()),
      columns_(experts_ + 1),
      groups_(static_cast<std::size_t>(groups)),
      touching_(groups_),
      with_group_(experts_ * groups_),
      alone_with_(experts_ * columns_) {
  for (std::size_t e = 0; e < experts_; ++e) {
    for (std::size_t f = 0; f < experts_; ++f) {
      alone_with_[e * columns_ + f] = choices.both(e, f);
    }
  }
  take_shared(ids, runs);
  sum_groups(choices);
}

void SwapCounts::take_shared(const IdRows& ids, std::span<const TokenRun> runs) {
  std::vector<std::uint32_t> held(groups_);
  for (const int group : group_of_) ++held[group];
  if (std::all_of(held.begin(), held.end(), [](std::uint32_t n) { return n < 2; })) return;
  bit_of_.assign(columns_, 0);
  for (std::size_t e = 0; e < experts_; ++e) bit_of_[e] = std::uint64_t{1} << group_of_[e] % 64;
  const int k = ids.top_k();
  for (const TokenRun& run : runs) {
    with_ids(ids, run.first, run.count, [&](auto rows) {
      k == 8 ? take_rows<8>(rows.data(), run.count, k) : take_rows<0>(rows.data(), run.count, k);
    });
  }
}

template <int fixed_k, class Id>
void SwapCounts::take_rows(const Id* ids, std::int64_t rows, int top_k) {
  const int choices = fixed_k > 0 ? fixed_k : top_k;
  const auto dropped = static_cast<std::uint32_t>(experts_);
  const std::uint64_t* const bit_of = bit_of_.data();
  Columns columns;
  for (const Id* end = ids + rows * choices; ids != end; ids += choices) {
    std::uint64_t once = 0, twice = 0, thrice = 0;
#pragma GCC unroll 8
    for (int k = 0; k < choices; ++k) {
      columns[k] = sizeof(Id) == 1 ? ids[k] : std::min<std::uint32_t>(ids[k], dropped);
      const std::uint64_t bit = bit_of[columns[k]];
      thrice |= twice & bit;
      twice |= once & bit;
      once |= bit;
    }
    if (twice == 0) continue;
    std::uint32_t shared = 0;  // choices that are not the only ones of their groups, as bits
#pragma GCC unroll 8
    for (int k = 0; k < choices; ++k) {
      shared |= static_cast<std::uint32_t>((bit_of[columns[k]] & twice) != 0) << k;
    }
    if (groups_ > 64) shared = without_others(columns, choices, shared);
    for (std::uint32_t left = shared; left != 0; left &= left - 1) {
      std::uint32_t* const alone = alone_with_.data() + columns[std::countr_zero(left)] * columns_;
#pragma GCC unroll 8
      for (int k = 0; k < choices; ++k) --alone[columns[k]];
    }
    if (thrice != 0) add_excess(columns, choices, shared);
  }
}

/// Those of some choices that share a group, and not only a bit.
std::uint32_t SwapCounts::without_others(const Columns& columns, int top_k,
                                         std::uint32_t some) const {
  std::uint32_t shared = 0;
  for (int k = 0; k < top_k; ++k) {
    for (int other = 0; other < top_k; ++other) {
      if (k == other || (some >> k & some >> other & 1) == 0) continue;
      const bool same = group_of_[columns[k]] == group_of_[columns[other]];
      shared |= static_cast<std::uint32_t>(same) << k;
    }
  }
  return shared;
}

void SwapCounts::add_excess(const Columns& columns, int top_k, std::uint32_t left) {
  while (left != 0) {
    const int shared = group_of_[columns[std::countr_zero(left)]];
    std::uint32_t inside = 0;
    for (int k = 0; k < top_k; ++k) {
      const bool in = columns[k] < experts_ && group_of_[columns[k]] == shared;
      inside |= static_cast<std::uint32_t>(in) << k;
    }
    left &= ~inside;
    const int excess = std::popcount(inside) - 2;
    if (excess == 0) continue;
    touching_[shared] += excess;
    for (int k = 0; k < top_k; ++k) {
      if ((inside >> k & 1) == 0 && columns[k] < experts_) {
        with_group_[columns[k] * groups_ + static_cast<std::size_t>(shared)] += excess;
      }
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
