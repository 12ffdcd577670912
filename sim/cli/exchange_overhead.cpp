// SPDX-License-Identifier: Apache-2.0
#include "sim/cli/exchange_overhead.h"

#include "sim/base/error.h"

namespace moesim {

void ExchangeOverhead::add_to(CommandLine& command) {
  command.add_option("--exchange-overhead", text,
                     "part of the fixed time that the topology has as exchange_overhead (0 us)");
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
