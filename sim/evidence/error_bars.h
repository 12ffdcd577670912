// SPDX-License-Identifier: Apache-2.0
// How far a mean over steps and a speedup would move with another recording of the same workload.
#pragma once

#include <optional>
#include <vector>

#include "sim/base/types.h"

namespace moesim {

/// A mean or a ratio of means with half of its 90 % interval for another recording of as many
/// steps. docs/error-bars.md has the formulas.
struct Sampled {
  double value = 0;
  double half = 0;
};

/// One-sided 95 % quantile of Student's t: two sides hold 90 %.
double student_95(int degrees_of_freedom);

/// By how much neighbours in time that resemble each other stretch a variance:
/// (1 + r) / (1 - r), r the correlation of neighbours without its bias, from 0 to 0.8.
double stretch_of_variance(const std::vector<double>& values);

/// Interval of the mean of the steps; none of fewer than two. half = t sqrt(variance (1/n + 1/n)).
std::optional<Sampled> sampled_mean(const std::vector<Seconds>& steps);

/// Interval of the mean of `base` over that of `steps`, step by step of the same batches; none of
/// fewer than two or of lists of different lengths.
std::optional<Sampled> sampled_speedup(const std::vector<Seconds>& base,
                                       const std::vector<Seconds>& steps);

/// Steps after which a ratio that is off 1 by so much would be outside its interval; none if it is
/// 1.
std::optional<std::int64_t> steps_to_tell(const Sampled& speedup, std::int64_t steps);

}  // namespace moesim
