// SPDX-License-Identifier: Apache-2.0
// HierMoE's smooth maximum by its definition.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>

namespace moesim {

/// max(x) (sum_j (x_j / max(x))^gamma)^(1/gamma) of counts >= 0; 0 when all are.
inline double gamma_norm(std::span<const double> counts, double gamma) {
  const double largest = counts.empty() ? 0 : *std::ranges::max_element(counts);
  if (largest <= 0) return 0;
  double sum = 0;
  for (const double x : counts) sum += std::pow(x / largest, gamma);
  return largest * std::pow(sum, 1 / gamma);
}

}  // namespace moesim
