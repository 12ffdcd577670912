// SPDX-License-Identifier: Apache-2.0
// Counts all that statistics and fits need in one pass over the ids of a layer: a trace may be
// larger than memory, so each id is read once.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/trace/routing_trace.h"

namespace moesim {

class LayerScan {
 public:
  /// `ranks`: numbers of ranks, each dividing `experts`, for distinct_ranks().
  LayerScan(int experts, int top_k, const std::vector<int>& ranks);

  /// Adds the rows of a step. Ids must be below `experts`.
  void add(const IdRows& rows, std::span<const std::int32_t> sequence_lengths);

  const std::vector<std::int64_t>& counts() const { return counts_; }
  /// Tokens that chose both a and b, for a != b.
  std::int64_t pair(int a, int b) const {
    return std::int64_t{pairs_[index(a, b)]} + pairs_[index(b, a)];
  }
  std::int64_t tokens() const { return tokens_; }
  /// Tokens that are not the first of their sequence, and the choices they share with the one
  /// before.
  std::int64_t followers() const { return followers_; }
  std::int64_t kept() const { return kept_; }
  /// Sum over tokens of different ranks among the token's experts, for ranks[i].
  std::int64_t distinct_ranks(std::size_t i) const { return placements_[i].distinct; }

 private:
  struct Placement {
    std::vector<std::uint64_t> mask;  // [expert]: the bit of its rank; up to 64 ranks
    std::vector<int> rank;            // [expert]; more than 64 ranks
    std::vector<std::int64_t> last;   // [rank]: the last token seen there; more than 64 ranks
    std::int64_t distinct = 0;
  };
  std::size_t index(int a, int b) const {
    return static_cast<std::size_t>(a) * static_cast<std::size_t>(experts_) +
           static_cast<std::size_t>(b);
  }
  template <class Id>
  void add_rows(const Id* ids, std::span<const std::int32_t> sequence_lengths);
  template <class Id>
  void add_row(const Id* row);
  template <class Id>
  void add_distinct(const Id* row);

  int experts_;
  int top_k_;
  std::vector<std::int64_t> counts_;
  std::vector<std::uint32_t> pairs_;  // [first chosen][later chosen]
  std::vector<std::int64_t> last_;    // [expert]: stamp of the last token that chose it
  std::int64_t stamp_ = 0;            // skips one number between sequences
  std::int64_t tokens_ = 0;
  std::int64_t followers_ = 0;
  std::int64_t kept_ = 0;
  std::vector<Placement> placements_;
};

}  // namespace moesim
