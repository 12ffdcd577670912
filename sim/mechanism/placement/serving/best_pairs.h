// SPDX-License-Identifier: Apache-2.0
// The assignment problem.
#pragma once

#include <vector>

namespace moesim {

/// [row] its column, another one for each, with the largest sum of values[row][column]. As many
/// rows as columns. By augmenting paths with potentials (Kuhn, Munkres), in cubic time.
std::vector<int> best_pairs(const std::vector<std::vector<int>>& values);

}  // namespace moesim
