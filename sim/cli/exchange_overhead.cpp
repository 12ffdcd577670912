// SPDX-License-Identifier: Apache-2.0
#include "sim/cli/exchange_overhead.h"

#include <fmt/format.h>

#include "sim/base/error.h"

namespace moesim {

void ExchangeOverhead::add_to(CommandLine& command, const std::string& otherwise) {
  command.add_option("--exchange-overhead", text,
                     fmt::format("part of the fixed time that no link takes, such as the "
                                 "topology's exchange_overhead (default: {})",
                                 otherwise));
}

Seconds ExchangeOverhead::time() const {
  if (text.empty()) return Seconds(0);
  NumberWithUnit value;
  if (!split_unit(text, value) || seconds_scale(value.unit) <= 0 || value.number < 0) {
    throw Error("--exchange-overhead: '" + text + "' is not a time", "such as \"5 us\"");
  }
  return Seconds(value.number * seconds_scale(value.unit));
}

}  // namespace moesim
