// SPDX-License-Identifier: Apache-2.0
// Figures and counts as people read them.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "sim/base/types.h"

namespace moesim {

/// "1 host", "8 hosts", "2 processes", "3 entries".
std::string counted(std::int64_t count, std::string_view noun);

/// 0.125 -> "12.5 %"
inline std::string percent(double part) { return fmt::format("{:.1f} %", 100 * part); }

/// 0.125 -> "+12.5 %"; what rounds to nothing is "+0.0 %", also from below
inline std::string signed_percent(double part) {
  const std::string text = fmt::format("{:+.1f} %", 100 * part);
  return text == "-0.0 %" ? "+0.0 %" : text;
}

/// 1.5e-6 s -> "1.5 us"
inline std::string microseconds(Seconds time) { return fmt::format("{:.5g} us", time.value * 1e6); }

}  // namespace moesim
