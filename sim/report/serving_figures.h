// SPDX-License-Identifier: Apache-2.0
// What only passes of a serving engine have.
#pragma once

#include <cstdint>

#include "sim/base/types.h"

namespace moesim {

struct ServingFigures {
  bool decodes = false;                // every sequence: the pass is a decode
  std::int64_t sequences = 0;          // of all ranks
  double tokens_per_sequence = 1;      // that a decoding sequence gets: 1 and the accepted drafts
  Bytes cache_per_token;               // on one GPU, over all layers
  std::int64_t free_cache_tokens = 0;  // that the fullest GPU of all steps has room for

  /// Of a decode; 0 otherwise.
  Seconds time_per_output_token(Seconds pass) const {
    return Seconds(decodes ? pass.value / tokens_per_sequence : 0);
  }
  bool operator==(const ServingFigures&) const = default;
};

}  // namespace moesim
