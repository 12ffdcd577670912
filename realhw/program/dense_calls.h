// SPDX-License-Identifier: Apache-2.0
// Calls of the dense parts of a model and of its training, in float32.
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "realhw/core/dense_math.h"
#include "realhw/program/place.h"

namespace moesim {

/// out = norm(x) x gain of vectors that lie `stride` elements apart; or the gradient by x from that
/// by out, and the gain's added.
struct RowNorm {
  struct Range {
    std::int64_t rows = 0, stride = 0;
    Place x, gain, out;
    Place dout, dx, dgain;  // of the gradient, which has no out
  };
  bool gradient = false;
  std::int64_t width = 0;
  std::vector<Range> ranges;
};

/// Turns queries and keys of rows by their positions in their sequence, and copies the values.
struct Rotary {
  HeadShape heads;
  std::int64_t rows = 0, sequence = 0;
  int way = 1;  // -1: back
  Place from, to;
};

/// Attention of sequences that lie behind one another: out of rows, or drows of rows and dout.
struct CausalAttention {
  bool gradient = false;
  HeadShape heads;
  std::int64_t sequences = 0, sequence = 0;
  Place rows, out, dout, drows;
};

/// Shares of the words and losses from logits, or the gradient by these from the shares.
struct CrossEntropy {
  bool gradient = false;
  std::int64_t words = 0;
  std::vector<std::int64_t> labels;  // [row], below 0: a word of another rank
  float weight = 1;                  // of a row's loss
  Place logits, shares, losses, dlogits;
};

/// Cross entropy of words that a tensor group divides: the sums of the rank's own
/// (entropy_of_part), or shares and losses from those of all, member by member [row][entropy_sums].
struct DividedEntropy {
  bool joined = false;
  std::int64_t words = 0;            // of the rank
  std::vector<std::int64_t> labels;  // [row] of the rank's words, below 0: another's
  std::int64_t parts = 1;            // of the group
  Place logits, sums, shares, losses;
};

/// to += from.
struct AddValues {
  struct Range {
    Place from, to;
    std::int64_t elements = 0;
  };
  std::vector<Range> ranges;
};

/// One step of Adam.
struct AdamUpdate {
  struct Range {
    Place gradients, first, second, weights;
    std::int64_t elements = 0;
  };
  AdamRule rule;
  std::vector<Range> ranges;
};

using DenseCall = std::variant<RowNorm, Rotary, CausalAttention, CrossEntropy, DividedEntropy,
                               AddValues, AdamUpdate>;

}  // namespace moesim
