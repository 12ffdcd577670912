// SPDX-License-Identifier: Apache-2.0
// What the FSEP tests share: tables of experts, and seeded loads of any skew.
#pragma once

#include <cmath>
#include <random>
#include <vector>

#include "sim/mechanism/loads.h"
#include "sim/plan/placement.h"

namespace moesim::fsep {

inline SlotTable table(const std::vector<std::vector<int>>& experts) {
  SlotTable slots;
  for (const auto& rank : experts) {
    slots.emplace_back();
    for (const int expert : rank) slots.back().emplace_back(expert);
  }
  return slots;
}

/// Counts 0..top from every source, divided by (expert + 1)^skew.
inline LoadMatrix random_loads(int ranks, int experts, unsigned seed, double skew = 0,
                               int top = 999) {
  std::mt19937 random(seed);
  LoadMatrix loads(ranks, experts);
  for (int source = 0; source < ranks; ++source) {
    for (int e = 0; e < experts; ++e) {
      const auto count = static_cast<double>(random() % static_cast<unsigned>(top + 1));
      loads.at(GpuId(source), ExpertId(e)) =
          static_cast<std::int64_t>(count / std::pow(e + 1, skew));
    }
  }
  return loads;
}

}  // namespace moesim::fsep
