// SPDX-License-Identifier: Apache-2.0
// Room that experts of lost ranks take on the other ranks.
#pragma once

#include <cstdint>

#include "sim/base/types.h"

namespace moesim {

/// Routed experts of an instance and the keys and values that they share memory with.
struct ServedExperts {
  Bytes experts{};           // weights, of each expert once; 0: not known
  int gpus = 1;              // of the instance
  int holders = 1;           // GPUs that hold each expert once
  Bytes per_token{};         // of keys and values, on a GPU
  double share = 1;          // of freed memory that keys and values get
  std::int64_t longest = 1;  // request, in tokens of whole blocks
  std::int64_t spare = 0;    // tokens of a rank's memory beyond its stated capacity

  /// Bytes that a GPU holds in addition while so many of the ranks are lost: the others hold the
  /// experts in equal parts.
  Bytes more(int ranks, int lost) const;
  /// What is left of a rank's room for `capacity` tokens then. Throws Unsuitable if the longest
  /// request does not fit.
  std::int64_t tokens_left(std::int64_t capacity, int ranks, int lost) const;
};

}  // namespace moesim
