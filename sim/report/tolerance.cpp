// SPDX-License-Identifier: Apache-2.0
#include "sim/report/tolerance.h"

#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/base/units.h"

namespace moesim {

double parse_tolerance(const std::string& text) {
  NumberWithUnit value;
  if (!split_unit(text, value) || value.unit != "%" || !(value.number >= 0)) {
    throw Error(fmt::format("--tolerance: '{}' is not a share", text), "such as 12%");
  }
  return value.number / 100;
}

}  // namespace moesim
