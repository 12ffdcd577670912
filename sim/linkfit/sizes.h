// SPDX-License-Identifier: Apache-2.0
// The times of each size: what they agree on, which contradict each other, and what runs of other
// rank counts say in their place.
#pragma once

#include <vector>

#include "sim/linkfit/measurement.h"
#include "sim/linkfit/robust.h"

namespace moesim {

/// Times further apart than this part of the lower one contradict each other.
inline constexpr double contradiction = 0.12;

/// The times of one size.
struct SizeTimes {
  double bytes = 0;
  double seconds = 0;  // median of the kept times
  int samples = 0;     // kept; 0: taken from elsewhere
  double spread = -1;  // 95 % half-width of the median, as a part of it; -1: one sample
  double apart = 0;    // slowest kept time / quickest kept - 1
  bool contradicted = false;
};

/// The same sizes with times that ascend (see robust.h).
std::vector<SizeTimes> ascending(std::vector<SizeTimes> sizes);

/// By size, ascending, each with its robust_median. A size is contradicted when its own times are
/// further than `contradiction` apart, or when the median of the three next larger sizes (up to
/// twice as large) is that much below its own, or of the three next smaller ones (down to half)
/// above: times that do not ascend.
std::vector<SizeTimes> sizes_of(const std::vector<Sample>& samples);

/// The sizes that nothing contradicts, and the sizes that curves `beside` tell. These are of other
/// rank counts, with sizes in bytes on this link at which each peer gets as much. A size that only
/// they have, or that is contradicted here, takes their time times the ratio of the two curves,
/// which is interpolated (its logarithm, in that of the size) between the nearest sizes that are
/// sound in both; of several curves the geometric mean. Needs such sizes on both sides.
std::vector<SizeTimes> settled(std::vector<SizeTimes> sizes,
                               const std::vector<std::vector<Sample>>& beside);

}  // namespace moesim
