// SPDX-License-Identifier: Apache-2.0
// What a step must compute, from only the routing: one token after the other, in double precision.
// Without placement, plan and exchange it cannot share their mistakes.
#pragma once

#include <cstdint>
#include <vector>

#include "realhw/core/expert_shape.h"
#include "realhw/core/matrix_math.h"
#include "realhw/core/row_format.h"

namespace moesim {

/// Elements that one rank compared, and wrong ones among them. Bytes: of messages without numbers.
struct Comparison {
  std::int64_t outputs = 0, wrong_outputs = 0;
  std::int64_t input_gradients = 0, wrong_input_gradients = 0;
  std::int64_t weight_gradients = 0, wrong_weight_gradients = 0;
  std::int64_t wrong_bytes = 0;
  std::int64_t weights = 0, wrong_weights = 0;  // after the update of an iteration

  std::int64_t wrong() const {
    return wrong_outputs + wrong_input_gradients + wrong_weight_gradients + wrong_bytes +
           wrong_weights;
  }
  Comparison& operator+=(const Comparison& other);
};

struct CompareOptions {
  int tokens = -1;  // of a rank and layer, evenly spread; -1: all, with all weight gradients
  int runs = 1;     // since memory was poisoned: each continues from the weights of the one before
};

/// One expert, one row at a time. Its parameters are rounded like those of the compared step, so
/// that only arithmetic differs.
class ReferenceExpert {
 public:
  ReferenceExpert(const ExpertShape& shape, int layer, ExpertId expert, RowFormat parameters);

  /// [hidden] of x[hidden].
  Doubles output(const std::vector<float>& x);
  /// The gradient by x from that by the output; adds those of the weights if wanted.
  Doubles backward(const std::vector<float>& x, const Doubles& dy, Doubles* dw1, Doubles* dw2);

 private:
  std::size_t hidden() const { return static_cast<std::size_t>(shape_.hidden); }
  std::size_t ffn() const { return static_cast<std::size_t>(shape_.ffn); }
  std::size_t up() const { return static_cast<std::size_t>(shape_.up()); }
  void forward(const std::vector<float>& x);

  ExpertShape shape_;
  ExpertWeights weights_;
  Doubles h_, a_;
};

}  // namespace moesim
