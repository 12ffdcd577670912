// SPDX-License-Identifier: Apache-2.0
// What only passes of a serving engine have.
#pragma once

#include <algorithm>
#include <cstdint>

#include "sim/base/types.h"

namespace moesim {

/// Experts of a GPU that a layer's tokens chose: kernels of few rows take as long as reading them.
struct ActivatedExperts {
  double mean = 0, most = 0;  // over layers: of the mean GPU, of the one with the most
  int steps = 0;

  void add(const ActivatedExperts& step) {
    const double before = static_cast<double>(steps) / (steps + 1);
    mean = mean * before + step.mean * (1 - before);
    most = most * before + step.most * (1 - before);
    ++steps;
  }
  bool operator==(const ActivatedExperts&) const = default;
};

struct ServingFigures {
  bool decodes = false;                // every sequence: the pass is a decode
  std::int64_t sequences = 0;          // of all ranks
  double tokens_per_sequence = 1;      // that a decoding sequence gets: 1 and the accepted drafts
  Bytes cache_per_token;               // on one GPU, over all layers
  std::int64_t free_cache_tokens = 0;  // that the fullest GPU of all steps has room for
  ActivatedExperts activated = {};

  /// Of one more step.
  void add(const ActivatedExperts& step, std::int64_t free_tokens) {
    const bool first = activated.steps == 0;
    free_cache_tokens = first ? free_tokens : std::min(free_cache_tokens, free_tokens);
    activated.add(step);
  }
  /// Of a decode; 0 otherwise.
  Seconds time_per_output_token(Seconds pass) const {
    return Seconds(decodes ? pass.value / tokens_per_sequence : 0);
  }
  bool operator==(const ServingFigures&) const = default;
};

}  // namespace moesim
