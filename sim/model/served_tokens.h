// SPDX-License-Identifier: Apache-2.0
// The sequences of one GPU in a serving pass, as its attention sees them.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/model/moe_model.h"
#include "sim/model/serving_batch.h"

namespace moesim {

/// What a GPU serves in one pass.
struct ServedTokens {
  std::vector<SequenceStep> sequences;  // of its rank of attention data parallelism
  DataType cache = DataType::bf16;      // of keys and values, and of the products with them
  int cp = 1;                           // GPUs that share the keys of a decode, whose heads each
                                        // of them then has all of
  std::int64_t logits = -1;             // tokens that the head computes; -1: the last of each
                                        // prefill, all of a decode

  std::int64_t tokens() const;
  std::int64_t head_tokens() const;
};

/// What one attention kernel of a pass works on: all sequences that prefill, or all that decode.
struct AttendedTokens {
  std::int64_t sequences = 0;
  std::int64_t queries = 0;   // new tokens of all of them
  std::int64_t attended = 0;  // mean keys per query, rounded to whole ones
  std::int64_t keys = 0;      // tokens whose keys and values are read, new ones included
};

/// Whether a sequence of so many new tokens runs the kernels of a decode.
bool decodes(const SequenceStep& sequence);

/// Which keys a query sees: at most `most` (0: all), each of `ratio` tokens up to it.
struct KeyRange {
  int most = 0;
  int ratio = 1;
};

/// The decode, or the prefill, of `served`. A query sees the tokens before it and itself, in this
/// range. Decode divides attended and keys by cp, rounded up.
AttendedTokens attended_tokens(const ServedTokens& served, bool decode, KeyRange range = {});

}  // namespace moesim
