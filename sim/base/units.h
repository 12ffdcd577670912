// SPDX-License-Identifier: Apache-2.0
// Reading and printing quantities with their units.
#pragma once

#include <string>
#include <string_view>

#include "sim/base/types.h"

namespace moesim {

/// A number and the unit that follows it: "50 GB/s" -> {50, "GB/s"}.
struct NumberWithUnit {
  double number = 0;
  std::string unit;
};

/// Splits at the first character that cannot continue a number. Returns false when there is no
/// number; `unit` may come out empty.
bool split_unit(std::string_view text, NumberWithUnit& out);

/// Scale of a unit, or 0 when it is unknown. Bytes: B kB MB GB TB (decimal), KiB MiB GiB TiB.
double bytes_scale(std::string_view unit);
double seconds_scale(std::string_view unit);       // ns us ms s min h d
double bandwidth_scale(std::string_view unit);     // B/s ... TB/s, bit/s ... Tbit/s, Gbps
double compute_rate_scale(std::string_view unit);  // FLOP/s ... PFLOP/s

/// Four significant digits and a fitting unit: "1.005 ms", "33.55 MB", "50 GB/s", "989.4 TFLOP/s".
std::string to_string(Seconds t);
std::string to_string(Bytes b);
std::string to_string(BytesPerSecond b);
std::string to_string(FlopsPerSecond f);

}  // namespace moesim
