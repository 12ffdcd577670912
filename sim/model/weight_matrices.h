// SPDX-License-Identifier: Apache-2.0
// The matrices among a model's weights, as one GPU holds them.
#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "sim/model/blocks.h"

namespace moesim {

/// A weight of this shape, [rows x columns], that multiplies rows of `columns` elements.
struct WeightMatrix {
  std::int64_t rows = 0, columns = 0;
  std::int64_t parameters() const { return rows * columns; }
  auto operator<=>(const WeightMatrix&) const = default;
};

/// What the products of a block multiply with, besides router and routed experts; one each.
std::vector<WeightMatrix> weight_matrices(const MoeModel& model, const HeldBlock& held,
                                          const BlockShard& shard);
/// Both of a routed expert that is divided over `etp` GPUs: gate and up are one matrix.
std::vector<WeightMatrix> expert_matrices(const MoeModel& model, int etp);

}  // namespace moesim
