// SPDX-License-Identifier: Apache-2.0
// Whole numbers of what decimal factors multiply.
#pragma once

#include <cmath>
#include <cstdint>

namespace moesim {

/// What a product may be off because decimal factors are not exact: 1.1 * 50 is a little over 55.
inline constexpr double inexact = 1e-9;

/// The least whole number that is at least `value`; within `inexact` of one, that one. `value` is
/// finite and fits.
inline std::int64_t rounded_up(double value) {
  return static_cast<std::int64_t>(std::ceil(value - inexact));
}

/// The largest whole number that is at most `value`; as rounded_up otherwise.
inline std::int64_t rounded_down(double value) {
  return static_cast<std::int64_t>(std::floor(value + inexact));
}

/// The largest of `over` nearly equal parts.
constexpr std::int64_t shared_by(std::int64_t value, std::int64_t over) {
  return (value + over - 1) / over;
}

}  // namespace moesim
