// SPDX-License-Identifier: Apache-2.0
// --exchange-overhead of the commands that fit links.
#pragma once

#include <string>

#include "sim/base/units.h"
#include "sim/flags/command_line.h"

namespace moesim {

/// The part of an exchange's fixed time that is of no link, but of its start.
struct ExchangeOverhead {
  std::string text = {};  // as given; empty: not given

  /// `otherwise`: for the help, what counts if it is not given.
  void add_to(CommandLine& command, const std::string& otherwise);
  bool given() const { return !text.empty(); }
  /// 0 s if it is not given. Throws Error if the text is not a time.
  Seconds time() const;
};

}  // namespace moesim
