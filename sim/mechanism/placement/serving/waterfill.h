// SPDX-License-Identifier: Apache-2.0
// Waterfill (sgl-project/sglang 0389b977, deepep_waterfill.py; PR 19290): the shared expert is one
// more choice of every token, and a rank with few routed rows computes it for others.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/base/types.h"

namespace moesim::waterfill {

/// What ranks compute before shared rows are dealt out: routed rows, and tokens of their own.
struct Water {
  std::vector<std::int64_t> loads;  // [rank]
  std::int64_t target = 0;          // rows of a rank if all had as many
  bool all_ranks = false;           // tokens may use ranks that they do not visit otherwise
};

/// `routed`, `tokens`: [rank]. Throws Error unless top_k > 0.
Water fill(std::span<const std::int64_t> routed, std::span<const std::int64_t> tokens, int top_k);

/// A rank with fewer tokens keeps its shared rows.
inline constexpr std::int64_t least_tokens = 64;

/// The rank that computes the shared expert for a source rank's token number `token` (from 0),
/// whose routed choices go to the ranks `visits`: drawn by the room under the target, its own rank
/// with a preference of 11 to 10; if no rank has room, the least loaded one.
GpuId rank_for(const Water& water, GpuId source, std::int64_t token, std::span<const GpuId> visits);

}  // namespace moesim::waterfill
