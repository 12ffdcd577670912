// SPDX-License-Identifier: Apache-2.0
// What a step must compute, from the routing alone: no placement, no plan, one token after the
// other in double precision.
#pragma once

#include <cstdint>
#include <string>

#include "realhw/core/rank_state.h"

namespace moesim {

/// Elements that one rank compared, and those that were wrong. Bytes: of messages without numbers.
struct Comparison {
  std::int64_t outputs = 0, wrong_outputs = 0;
  std::int64_t input_gradients = 0, wrong_input_gradients = 0;
  std::int64_t weight_gradients = 0, wrong_weight_gradients = 0;
  std::int64_t wrong_bytes = 0;

  std::int64_t wrong() const {
    return wrong_outputs + wrong_input_gradients + wrong_weight_gradients + wrong_bytes;
  }
  Comparison& operator+=(const Comparison& other);
};

struct CompareOptions {
  int tokens = -1;  // of a rank and layer, evenly spread; -1: all, with all weight gradients
};

/// Compares what a rank holds after a step: outputs and input gradients of its tokens, weight
/// gradients of its slots. An element is wrong when it is off by more than a share of the largest
/// element of its vector, cancellation aside: 1e-4, and per exchange on the way back twice the
/// rounding of its rows. A token whose results are not all here counts as wrong in all elements.
Comparison compare(RankState& rank, const CompareOptions& options = {});

}  // namespace moesim
