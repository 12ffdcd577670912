// SPDX-License-Identifier: Apache-2.0
// --exchange-overhead of the commands that fit links.
#pragma once

#include <string>

#include "sim/base/units.h"
#include "sim/flags/command_line.h"

namespace moesim {

/// Of fixed times, what an exchange takes before a link does.
struct ExchangeOverhead {
  std::string text = {};  // as given; empty: not given

  /// `otherwise`: what counts if it is not given.
  void add_to(CommandLine& command, const std::string& otherwise);
  bool given() const { return !text.empty(); }
  /// Throws Error if the text is not a time.
  Seconds time() const;
};

}  // namespace moesim
