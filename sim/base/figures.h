// SPDX-License-Identifier: Apache-2.0
// Figures as reports and calibrations write them.
#pragma once

#include <fmt/format.h>

#include <string>

#include "sim/base/types.h"

namespace moesim {

/// 0.125 -> "12.5 %"
inline std::string percent(double part) { return fmt::format("{:.1f} %", 100 * part); }

/// 0.125 -> "+12.5 %"
inline std::string signed_percent(double part) { return fmt::format("{:+.1f} %", 100 * part); }

/// 1.5e-6 s -> "1.5 us"
inline std::string microseconds(Seconds time) { return fmt::format("{:.5g} us", time.value * 1e6); }

}  // namespace moesim
