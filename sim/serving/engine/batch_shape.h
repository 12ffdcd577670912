// SPDX-License-Identifier: Apache-2.0
// A batch in six numbers, which set the price of a pass, routing apart.
#pragma once

#include <array>
#include <cstdint>

#include "sim/model/serving_batch.h"

namespace moesim {

enum class ShapeAxis { sequences, context, skew, prompt_tokens, prompt_context, prompt_skew };
inline constexpr std::size_t shape_axes = 6;

/// - sequences: how many decode, of all ranks; context: their mean; skew: the sequences of the
///   fullest rank over the mean of ranks;
/// - prompt_tokens: of all ranks; prompt_context: tokens before each, weighed by tokens;
///   prompt_skew: tokens of the fullest rank over the mean.
using BatchShape = std::array<double, shape_axes>;

/// Entries of at most `decode_tokens` tokens per sequence count as decoding.
BatchShape shape_of(const ServingBatch& batch, std::int64_t decode_tokens);

/// A batch of that shape on so many ranks: the first rank is the fullest, the others are alike.
/// Numbers that are not whole are rounded; requests are numbered from 0.
ServingBatch batch_of(const BatchShape& shape, std::size_t ranks, std::int64_t decode_tokens);

}  // namespace moesim
