// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/training/swap_counts.h"

#include <algorithm>
#include <array>
#include <bit>
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
  for (const TokenRun& run : runs) {
    with_ids(ids, run.first, run.count, [&](auto rows) {
      count_ids(rows, std::span(choosing_));
      count_pairs(rows, ids.top_k(), n, both_.data());
    });
  }
  for (std::size_t e = 0; e < n; ++e) {  // each pair was counted in one of its two orders
    both_[e * n + e] = choosing_[e];
    for (std::size_t f = e + 1; f < n; ++f) {
      both_[e * n + f] = both_[f * n + e] = both_[e * n + f] + both_[f * n + e];
    }
  }
}

SwapCounts::SwapCounts(std::vector<int> group_of, int groups, const IdRows& ids,
                       std::span<const TokenRun> runs, const PairedChoices& choices)
    : group_of_(std::move(group_of)),
      experts_(group_of_.size()),
      groups_(static_cast<std::size_t>(groups)),
      touching_(groups_),
      with_group_(experts_ * groups_),
      alone_with_(experts_ * experts_) {
  start_with(choices);
  take_shared(ids, runs);
}

void SwapCounts::start_with(const PairedChoices& choices) {
  for (std::size_t e = 0; e < experts_; ++e) {
    const int group = group_of_[e];
    touching_[group] += choices.choosing(e);
    std::uint32_t* const groups = with_group_.data() + e * groups_;
    std::uint32_t* const alone = alone_with_.data() + e * experts_;
    for (std::size_t f = 0; f < experts_; ++f) {
      if (f != e && group_of_[f] == group) continue;
      groups[group_of_[f]] += choices.both(e, f);
      alone[f] = choices.both(e, f);
    }
  }
}

void SwapCounts::take_shared(const IdRows& ids, std::span<const TokenRun> runs) {
  std::vector<std::uint32_t> held(groups_);
  for (const int group : group_of_) ++held[group];
  if (std::all_of(held.begin(), held.end(), [](std::uint32_t n) { return n < 2; })) return;
  bit_of_.assign(ids.width() == 1 ? 256 : 65536, 0);
  group_at_.assign(bit_of_.size(), dropped);
  for (std::size_t e = 0; e < experts_; ++e) {
    group_at_[e] = static_cast<std::uint32_t>(group_of_[e]);
    bit_of_[e] = std::uint64_t{1} << group_at_[e] % 64;
  }
  const int k = ids.top_k();
  for (const TokenRun& run : runs) {
    with_ids(ids, run.first, run.count, [&](auto rows) {
      k == 8 ? take_rows<8>(rows.data(), run.count, k) : take_rows<0>(rows.data(), run.count, k);
    });
  }
}

/// Groups of more than 64 share bits: rows that are handed on may yet have no group twice.
template <int fixed_k, class Id>
void SwapCounts::take_rows(const Id* ids, std::int64_t rows, int top_k) {
  const int choices = fixed_k > 0 ? fixed_k : top_k;
  const std::uint64_t* const bit_of = bit_of_.data();
  for (const Id* end = ids + rows * choices; ids != end; ids += choices) {
    std::uint64_t once = 0, twice = 0;
    for (int k = 0; k < choices; ++k) {
      const std::uint64_t bit = bit_of[ids[k]];
      twice |= once & bit;
      once |= bit;
    }
    if (twice != 0) take_row(ids, choices, twice);
  }
}

/// A group with m experts of the token was counted m times although it is touched once, and it has
/// several experts.
template <class Id>
void SwapCounts::take_row(const Id* ids, int top_k, std::uint64_t twice) {
  std::array<std::uint32_t, max_top_k> group, inside, outside;
  std::uint32_t left = 0;  // choices that may share a group, as bits
  for (int k = 0; k < top_k; ++k) {
    const auto choice = static_cast<std::size_t>(k);
    group[choice] = group_at_[ids[k]];
    left |= static_cast<std::uint32_t>((bit_of_[ids[k]] & twice) != 0) << k;
  }
  while (left != 0) {
    const std::uint32_t shared = group[std::countr_zero(left)];
    std::size_t m = 0, others = 0;
    for (int k = 0; k < top_k; ++k) {
      const std::uint32_t of = group[k];
      inside[m] = outside[others] = ids[k];
      m += of == shared;
      others += of != shared && of != dropped;
      left &= ~(static_cast<std::uint32_t>(of == shared) << k);
    }
    if (m < 2) continue;
    touching_[shared] -= static_cast<std::int64_t>(m) - 1;
    for (std::size_t j = 0; j < others; ++j) {
      with_group_[outside[j] * groups_ + shared] -= static_cast<std::uint32_t>(m - 1);
    }
    for (std::size_t i = 0; i < m; ++i) {
      std::uint32_t* const alone = alone_with_.data() + inside[i] * experts_;
      --alone[inside[i]];
      for (std::size_t j = 0; j < others; ++j) --alone[outside[j]];
    }
  }
}

}  // namespace moesim
