// SPDX-License-Identifier: Apache-2.0
// Expert capacity: the rows that an expert takes from the tokens of one source rank.
#pragma once

#include <cstdint>

#include "sim/base/yaml.h"

namespace moesim {

/// Whose formula; sources: Capacity::rows.
enum class CapacityRule { tutel, megatron, deepspeed, mesh, flaxformer, fastmoe_gshard };

struct Capacity {
  CapacityRule rule = CapacityRule::tutel;
  double factor = 1;

  /// Rows per expert for a rank that holds `tokens`; of Tutel with |factor|.
  std::int64_t rows(std::int64_t tokens, int experts, int top_k) const;
  /// Whether all first choices are served before any second one; else token by token.
  bool choice_by_choice(int top_k) const;
};

/// A cap of the largest load, by Tutel's rule only.
enum class NegativeFactor { allowed, refused };

/// Reads `rule` (default tutel) and `factor`.
Capacity read_capacity(const YamlMap& params, NegativeFactor negative);

}  // namespace moesim
