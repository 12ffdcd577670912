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
  std::vector<std::int64_t> labels;  // [row]
  float weight = 1;                  // of a row's loss
  Place logits, shares, losses, dlogits;
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

using DenseCall =
    std::variant<RowNorm, Rotary, CausalAttention, CrossEntropy, AddValues, AdamUpdate>;

}  // namespace moesim
