// SPDX-License-Identifier: Apache-2.0
#include "sim/trace/layer_scan.h"

namespace moesim {
namespace {

/// std::popcount is a library call on the baseline x86-64; this is not.
int bits(std::uint64_t x) {
  x -= x >> 1 & 0x5555555555555555U;
  x = (x & 0x3333333333333333U) + (x >> 2 & 0x3333333333333333U);
  x = (x + (x >> 4)) & 0x0f0f0f0f0f0f0f0fU;
  return static_cast<int>(x * 0x0101010101010101U >> 56);
}

}  // namespace

LayerScan::LayerScan(int experts, int top_k, const std::vector<int>& ranks)
    : experts_(experts),
      top_k_(top_k),
      counts_(static_cast<std::size_t>(experts)),
      pairs_(top_k > 1 ? index(experts, 0) : 0),
      last_(static_cast<std::size_t>(experts), -2) {
  for (const int n : ranks) {
    Placement placement;
    for (int e = 0; e < experts; ++e) {
      const int rank = e / (experts / n);
      if (n <= 64) {
        placement.mask.push_back(std::uint64_t{1} << rank);
      } else {
        placement.rank.push_back(rank);
      }
    }
    if (n > 64) placement.last.assign(n, -1);
    placements_.push_back(std::move(placement));
  }
}

void LayerScan::add(const IdRows& rows, std::span<const std::int32_t> sequence_lengths) {
  if (rows.width() == 1) {
    add_rows(static_cast<const std::uint8_t*>(rows.data()), sequence_lengths);
  } else {
    add_rows(static_cast<const std::uint16_t*>(rows.data()), sequence_lengths);
  }
}

template <class Id>
void LayerScan::add_rows(const Id* ids, std::span<const std::int32_t> sequence_lengths) {
  for (const std::int32_t length : sequence_lengths) {
    ++stamp_;  // a gap: the first token of a sequence follows none
    for (std::int32_t t = 0; t < length; ++t, ids += top_k_) add_row(ids);
    tokens_ += length;
    followers_ += length - 1;
  }
}

template <class Id>
void LayerScan::add_row(const Id* row) {
  ++stamp_;
  for (int k = 0; k < top_k_; ++k) {
    const std::size_t e = row[k];
    ++counts_[e];
    kept_ += last_[e] == stamp_ - 1;
    last_[e] = stamp_;
    std::uint32_t* const partners = pairs_.data() + e * static_cast<std::size_t>(experts_);
    for (int j = k + 1; j < top_k_; ++j) ++partners[row[j]];
  }
  add_distinct(row);
}

template <class Id>
void LayerScan::add_distinct(const Id* row) {
  for (auto& placement : placements_) {
    if (!placement.mask.empty()) {
      std::uint64_t seen = 0;
      for (int k = 0; k < top_k_; ++k) seen |= placement.mask[row[k]];
      placement.distinct += bits(seen);
      continue;
    }
    for (int k = 0; k < top_k_; ++k) {
      auto& last = placement.last[placement.rank[row[k]]];
      placement.distinct += last != stamp_;
      last = stamp_;
    }
  }
}

}  // namespace moesim
