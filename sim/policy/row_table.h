// SPDX-License-Identifier: Apache-2.0
// How many rows GPUs send each other, where only GPUs of one EP group do.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <span>
#include <stdexcept>
#include <vector>

#include "sim/base/types.h"

namespace moesim {

/// Counts of pairs of GPUs, local copies included. GPUs come in blocks of one size, block after
/// block, and those of different blocks send each other nothing: so it grows with the GPUs, not
/// with their square.
class RowTable {
 public:
  RowTable() = default;
  /// One block, in which nobody sends anything.
  explicit RowTable(std::size_t gpus)
      : gpus_(gpus), block_(gpus), blocks_(1, std::vector<std::uint32_t>(gpus * gpus)) {}
  /// One block: [from * gpus + to].
  RowTable(std::initializer_list<std::uint32_t> counts) : blocks_(1, counts) {
    while (gpus_ * gpus_ < counts.size()) ++gpus_;
    block_ = gpus_;
  }
  /// Further GPUs, in blocks as large as its own, which are moved here: thousands of GPUs have
  /// hundreds of megabytes of them.
  void append(RowTable&& others) {
    if (gpus_ == 0) block_ = others.block_;
    if (block_ != others.block_) throw std::logic_error("blocks of rows that differ in size");
    gpus_ += others.gpus_;
    std::ranges::move(others.blocks_, std::back_inserter(blocks_));
  }

  std::size_t gpus() const { return gpus_; }
  /// The first GPU of the block of one.
  std::size_t first(std::size_t gpu) const { return gpu / block_ * block_; }
  /// What a GPU sends to those of its block: [to - first(from)].
  std::span<std::uint32_t> row(std::size_t from) {
    return {blocks_[from / block_].data() + from % block_ * block_, block_};
  }
  std::span<const std::uint32_t> row(std::size_t from) const {
    return {blocks_[from / block_].data() + from % block_ * block_, block_};
  }
  /// 0 for GPUs of different blocks.
  std::uint32_t at(std::size_t from, std::size_t to) const {
    const std::size_t begin = first(from);
    return to < begin || to >= begin + block_ ? 0 : row(from)[to - begin];
  }

  RowTable& operator*=(std::uint32_t factor) {
    for (auto& block : blocks_) {
      for (std::uint32_t& count : block) count *= factor;
    }
    return *this;
  }
  std::uint64_t total() const {
    std::uint64_t total = 0;
    for (const auto& block : blocks_) {
      for (const std::uint32_t count : block) total += count;
    }
    return total;
  }
  /// The largest of all; 0 of none.
  std::uint32_t most() const {
    std::uint32_t most = 0;
    for (const auto& block : blocks_) {
      for (const std::uint32_t count : block) most = std::max(most, count);
    }
    return most;
  }

  /// Of all pairs: [from * gpus + to].
  std::size_t size() const { return gpus_ * gpus_; }
  std::uint32_t operator[](std::size_t pair) const { return at(pair / gpus_, pair % gpus_); }
  bool operator==(const RowTable& other) const = default;
  bool operator==(const std::vector<std::uint32_t>& pairs) const {
    if (pairs.size() != size()) return false;
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      if ((*this)[i] != pairs[i]) return false;
    }
    return true;
  }

 private:
  std::size_t gpus_ = 0, block_ = 0;
  /// [from / block][from % block * block + to - first(from)]
  std::vector<std::vector<std::uint32_t>> blocks_;
};

}  // namespace moesim
