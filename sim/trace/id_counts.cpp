// SPDX-License-Identifier: Apache-2.0
#include "sim/trace/id_counts.h"

#include <algorithm>
#include <array>
#include <limits>

namespace moesim {
namespace {

/// Calls use<k>() with the number of choices if it is a common one, use<0>() else: loops over a
/// known number are unrolled, by pragmas, as -O2 leaves them as they are.
template <class Use>
void with_fixed_k(int top_k, const Use& use) {
  switch (top_k) {
    case 1:
      return use.template operator()<1>();
    case 2:
      return use.template operator()<2>();
    case 4:
      return use.template operator()<4>();
    case 6:
      return use.template operator()<6>();
    case 8:
      return use.template operator()<8>();
    default:
      return use.template operator()<0>();
  }
}

template <class Id>
void count_wide(std::span<const Id> ids, std::span<std::uint32_t> counts) {
  for (const Id id : ids) {
    if (id < counts.size()) ++counts[id];
  }
}

template <int fixed_k, class Id>
void add_pairs(const Id* ids, std::size_t rows, int top_k, std::size_t experts,
               std::uint16_t* pairs) {
  const int choices = fixed_k > 0 ? fixed_k : top_k;
  for (const Id* end = ids + rows * static_cast<std::size_t>(choices); ids != end; ids += choices) {
#pragma GCC unroll 8
    for (int a = 0; a < choices; ++a) {
      std::uint16_t* const later = pairs + ids[a] * experts;
#pragma GCC unroll 8
      for (int b = a + 1; b < choices; ++b) ++later[ids[b]];
    }
  }
}

/// The same without ids from `experts` on.
void add_known_pairs(std::span<const std::uint16_t> rows, int top_k, std::size_t experts,
                     std::uint16_t* pairs) {
  const auto choices = static_cast<std::size_t>(top_k);
  std::vector<std::uint16_t> kept(choices);
  for (std::size_t first = 0; first < rows.size(); first += choices) {
    const auto row = rows.subspan(first, choices);
    const auto end = std::remove_copy_if(row.begin(), row.end(), kept.begin(),
                                         [&](std::uint16_t id) { return id >= experts; });
    add_pairs<0>(kept.data(), 1, static_cast<int>(end - kept.begin()), experts, pairs);
  }
}

}  // namespace

/// Neighbouring ids go to different tables, because an addition would wait for one just before it
/// to the same id.
template <class Id>
void IdCounter::add(std::span<const Id> ids, std::span<std::uint32_t> counts) {
  // Adding the tables up takes as long as counting `few` ids; larger ones leave the fastest cache.
  constexpr std::size_t few = 256, most_ids = 2048, lanes = 4;
  if (ids.size() < few || ids_ > most_ids) return count_wide(ids, counts);
  if (lanes_.empty()) {
    // One past the ids is for those beyond.
    stride_ = sizeof(Id) == 1 ? 256 : ids_ + 1;
    lanes_.resize(lanes * stride_);
  }
  used_ = true;
  const std::size_t beyond = stride_ - 1;
  std::uint32_t *const a = lanes_.data(), *const b = a + stride_, *const c = b + stride_,
                       *const d = c + stride_;
  const auto known = [beyond](Id id) {
    return sizeof(Id) == 1 ? id : std::min<std::size_t>(id, beyond);
  };
  const std::size_t whole = ids.size() / lanes * lanes;
  for (std::size_t i = 0; i < whole; i += lanes) {
    ++a[known(ids[i])];
    ++b[known(ids[i + 1])];
    ++c[known(ids[i + 2])];
    ++d[known(ids[i + 3])];
  }
  for (std::size_t i = whole; i < ids.size(); ++i) ++a[known(ids[i])];
}

void IdCounter::finish(std::span<std::uint32_t> counts) {
  if (!used_) return;
  used_ = false;
  const std::uint32_t *const a = lanes_.data(), *const b = a + stride_, *const c = b + stride_,
                             *const d = c + stride_;
  const std::size_t ids = std::min(counts.size(), ids_);
  for (std::size_t id = 0; id < ids; ++id) counts[id] += a[id] + b[id] + c[id] + d[id];
  std::ranges::fill(lanes_, 0U);
}

template void IdCounter::add(std::span<const std::uint8_t>, std::span<std::uint32_t>);
template void IdCounter::add(std::span<const std::uint16_t>, std::span<std::uint32_t>);
template void IdCounter::add(std::span<const std::uint32_t>, std::span<std::uint32_t>);

template <class Id>
void PairCounter::add(std::span<const Id> rows, int top_k, std::span<std::uint32_t> pairs) {
  constexpr std::size_t most = std::numeric_limits<std::uint16_t>::max();
  const auto choices = static_cast<std::size_t>(top_k);
  while (!rows.empty()) {
    if (rows_ == most) finish(pairs);
    const std::size_t count = std::min(rows.size() / choices, most - rows_);
    const auto some = rows.first(count * choices);
    if constexpr (sizeof(Id) == 1) {
      with_fixed_k(top_k, [&]<int k>() {
        add_pairs<k>(some.data(), count, top_k, experts_, newest_.data());
      });
    } else {
      add_known_pairs(some, top_k, experts_, newest_.data());
    }
    rows_ += count;
    rows = rows.subspan(some.size());
  }
}

void PairCounter::finish(std::span<std::uint32_t> pairs) {
  for (std::size_t pair = 0; pair < newest_.size(); ++pair) pairs[pair] += newest_[pair];
  std::ranges::fill(newest_, std::uint16_t{0});
  rows_ = 0;
}

template void PairCounter::add(std::span<const std::uint8_t>, int, std::span<std::uint32_t>);
template void PairCounter::add(std::span<const std::uint16_t>, int, std::span<std::uint32_t>);

void TouchCounter::start(std::span<const Member> members, std::size_t classes) {
  for (const std::uint32_t id : members_) fits_a_word() ? bit_of_[id] = 0 : class_of_[id] = 0;
  members_.clear();
  for (const Member& member : members) members_.push_back(member.id);
  classes_ = classes;
  if (fits_a_word()) {
    bit_of_.resize(ids_);
    for (const Member& member : members) bit_of_[member.id] = std::uint64_t{1} << member.of;
  } else {
    class_of_.resize(ids_);
    for (const Member& member : members) class_of_[member.id] = member.of + 1;
  }
  restart();
}

void TouchCounter::restart() {
  counts_.assign(classes_, 0);
  if (fits_a_word()) return;
  touched_.assign(classes_ + 1, {});
  row_ = 0;
}

template <class Id>
void TouchCounter::add(std::span<const Id> rows, int top_k) {
  with_fixed_k(top_k, [&]<int k>() {
    fits_a_word() ? add_bits<k>(rows, top_k) : add_newest<k>(rows, top_k);
  });
}

/// Up to 64 classes: the classes of a row are the bits of a word, and words are counted by
/// position.
template <int fixed_k, class Id>
void TouchCounter::add_bits(std::span<const Id> rows, int top_k) {
  const int choices = fixed_k > 0 ? fixed_k : top_k;
  std::array<std::uint64_t, 256> touched;
  const std::uint64_t* const bit_of = bit_of_.data();
  const Id* ids = rows.data();
  const Id* const end = ids + rows.size();
  while (ids != end) {
    std::size_t filled = 0;
    for (; filled < touched.size() && ids != end; ++filled, ids += choices) {
      std::uint64_t bits = choices % 2 == 1 ? bit_of[ids[choices - 1]] : 0;
#pragma GCC unroll 8
      for (int k = 1; k < choices; k += 2) bits |= bit_of[ids[k - 1]] | bit_of[ids[k]];
      touched[filled] = bits;
    }
    // A row of no class counts nothing, and whole blocks are counted faster than their rows.
    while (filled % BitCounts::block != 0) touched[filled++] = 0;
    bits_.add({touched.data(), filled});
  }
}

/// More classes: each class keeps the last row that touched it, so that a row counts once.
template <int fixed_k, class Id>
void TouchCounter::add_newest(std::span<const Id> rows, int top_k) {
  const int choices = fixed_k > 0 ? fixed_k : top_k;
  const std::uint32_t* const class_of = class_of_.data();
  Touched* const touched = touched_.data();
  std::uint32_t row = row_;
  for (const Id *ids = rows.data(), *end = ids + rows.size(); ids != end; ids += choices) {
    ++row;
#pragma GCC unroll 8
    for (int k = 0; k < choices; ++k) {
      Touched& of = touched[class_of[ids[k]]];
      of.count += of.row != row ? 1 : 0;
      of.row = row;
    }
  }
  row_ = row;
}

std::span<const std::uint32_t> TouchCounter::finish() {
  if (fits_a_word()) {
    bits_.finish(counts_);
  } else {
    for (std::size_t c = 0; c < classes_; ++c) counts_[c] = touched_[c + 1].count;
  }
  return counts_;
}

template void TouchCounter::add(std::span<const std::uint8_t>, int);
template void TouchCounter::add(std::span<const std::uint16_t>, int);
template void TouchCounter::add(std::span<const std::uint32_t>, int);

}  // namespace moesim
