// SPDX-License-Identifier: Apache-2.0
// Medians of repeated times, without those that something disturbed.
#pragma once

#include <vector>

namespace moesim {

struct Robust {
  double value = 0;   // median of the kept
  double spread = 0;  // 95 % half-width of that median, as a part of it; 0 with fewer than two
  int kept = 0, rejected = 0;
};

/// Of three or more, values further from their median than 3.5 scaled median deviations (of at
/// least 1 %) are rejected. Throws std::invalid_argument when there are none.
Robust robust_median(std::vector<double> values);

/// Values that ought to ascend: where one is less than the one before, neighbours are pooled and
/// have the median of their pool.
std::vector<double> ascending(const std::vector<double>& values);

/// The line through points of which half may be wrong: the median of the slopes of all pairs of
/// different x, and the median of what is left. Throws std::invalid_argument without points.
struct RobustLine {
  double slope = 0, start = 0;
};
RobustLine theil_sen(const std::vector<double>& x, const std::vector<double>& y);

}  // namespace moesim
