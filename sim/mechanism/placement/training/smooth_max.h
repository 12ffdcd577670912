// SPDX-License-Identifier: Apache-2.0
// The maximum of counts, hard or smoothed, and how it changes when two counts do.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace moesim {

enum class MaximumKind { hard, smooth, log_sum_exp };

/// How counts become one number. hard: the largest. smooth: the gamma-norm, max(x) (sum_j
/// (x_j / max(x))^gamma)^(1/gamma) (HierMoE, arXiv 2508.09591, which uses gamma = 10). log_sum_exp:
/// s (1 + ln(sum_j e^(gamma (x_j / s - 1))) / gamma); the paper names it as an ablation without
/// its temperature, here s / gamma with s the largest count before any change.
struct Maximum {
  MaximumKind kind = MaximumKind::smooth;
  double gamma = 10;  // > 0
};

/// The maximum of counts, and of the same with two of them replaced at O(1): what all the others
/// contribute is tabulated per pair, so nothing is ever subtracted. O(n^2) memory.
class TwoChanges {
 public:
  TwoChanges(Maximum maximum, std::span<const std::int64_t> counts);

  double unchanged() const { return unchanged_; }
  /// Entry i becomes a and entry j becomes b; i != j, 0 <= a, b <= twice the largest count.
  double changed(int i, std::int64_t a, int j, std::int64_t b) const;

 private:
  double term(std::int64_t count) const;
  double join(double a, double b) const;
  double finish(double joined) const;

  Maximum maximum_;
  unsigned whole_gamma_;  // 0: gamma has a fraction, or is large
  std::size_t n_;
  double scale_;                // the largest count
  std::vector<double> others_;  // [i][j], i < j: joined terms of all entries but i and j
  double unchanged_ = 0;
};

}  // namespace moesim
