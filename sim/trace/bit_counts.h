// SPDX-License-Identifier: Apache-2.0
// Counts in how many words each bit is set (a positional population count): the words are masks of
// the groups that a token touches.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace moesim {

/// Adds up words of 64 bits by position. Sixteen words at a time go through a tree of full adders
/// that works on all positions at once; its carries are added to bytes, eight to a word. Counting
/// bit by bit would be most of the time of a large layer.
class BitCounts {
 public:
  /// Words that are added together; others are added one by one, which takes longer.
  static constexpr std::size_t block = 16;

  void add(std::span<const std::uint64_t> words);
  /// Adds the counts of the first positions, at most 64, to `counts` and begins anew.
  void finish(std::span<std::uint32_t> counts);

 private:
  void spread(std::uint64_t bits, std::uint32_t weight, std::size_t positions);
  void empty_bytes();

  std::uint64_t ones_ = 0, twos_ = 0, fours_ = 0, eights_ = 0;  // bits of the counts so far
  std::array<std::uint64_t, 8> bytes_{};  // byte i of word j: sixteens at position 8 i + j
  int carried_ = 0;                       // additions to bytes_ since they were empty
  std::array<std::uint32_t, 64> counts_{};
};

}  // namespace moesim
