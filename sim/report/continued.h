// SPDX-License-Identifier: Apache-2.0
// A steady part of a timeline, of which the whole step has more.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/plan/timeline.h"

namespace moesim {

/// In the window every GPU does what it did as long before, with later microbatches. Measures count
/// what is in it so many times more.
struct Continued {
  Interval window;
  int times = 0;
  Seconds error;              // by which the whole step may be longer or shorter
  Seconds drift;              // by which ops may be earlier or later within it, and so its parts
  std::vector<bool> repeats;  // [op] whether it is one of those in a period
  std::vector<std::int32_t> later;  // [op] the same op a period later; below 0: there is none

  Seconds left_out() const { return (window.end - window.start) * times; }
  /// How often the whole step has what an op does.
  int count(std::size_t op) const { return repeats[op] ? 1 + times : 1; }
};

/// The part of an interval in the window; not of positive length if there is none.
inline Interval within(const Interval& interval, const Interval& window) {
  return {std::max(interval.start, window.start), std::min(interval.end, window.end)};
}

}  // namespace moesim
