// SPDX-License-Identifier: Apache-2.0
// A batch in seven numbers, which set the price of a pass, routing apart.
#pragma once

#include <array>
#include <cstdint>

#include "sim/model/serving_batch.h"

namespace moesim {

enum class ShapeAxis {
  sequences,
  context,
  skew,
  prompt_tokens,
  prompt_context,
  prompt_skew,
  prompts
};
inline constexpr std::size_t shape_axes = 7;

/// - sequences: how many decode, of all ranks; context: their mean; skew: the sequences of the
///   fullest rank over the mean of ranks;
/// - prompt_tokens: of all ranks; prompt_context: tokens before each; prompt_skew: tokens of the
///   fullest rank over the mean; prompts: how many these tokens would be if all prompts were as
///   long. Contexts and lengths are means over tokens, as attention costs them.
using BatchShape = std::array<double, shape_axes>;

/// Entries of at most `decode_tokens` tokens per sequence count as decoding.
BatchShape shape_of(const ServingBatch& batch, std::int64_t decode_tokens);

/// Ranks of a pass.
struct PassRanks {
  std::size_t count = 1;
  bool all_join = true;  // those without work compute one token
};

/// A batch of that shape: the first rank is the fullest, the others are alike. Numbers that are not
/// whole are rounded; requests are numbered from 0.
ServingBatch batch_of(const BatchShape& shape, const PassRanks& ranks, std::int64_t decode_tokens);

}  // namespace moesim
