// SPDX-License-Identifier: Apache-2.0
// --exchange-overhead of the commands that fit links.
#pragma once

#include <string>

#include "sim/base/units.h"
#include "sim/flags/command_line.h"

namespace moesim {

/// Of fixed times, what the topology has as exchange_overhead.
struct ExchangeOverhead {
  std::string text = {};  // as given; empty: 0 s

  void add_to(CommandLine& command);
  /// Throws Error if the text is not a time.
  Seconds time() const;
};

}  // namespace moesim
