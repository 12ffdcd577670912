// SPDX-License-Identifier: Apache-2.0
// Flags that several commands have: --allow-commands (the only place where a person lets policies
// run programs), --lossy (whether policies that compute something else than the model may be named
// the best), and times, which are longer than those of steps.
#pragma once

#include <string>

#include "sim/base/types.h"
#include "sim/flags/command_line.h"

namespace moesim {

/// "10min", "90 s", "2000 h", "30 d"; "0 s" if `zero`. Throws Error naming the flag, with an
/// example.
Seconds time_of_flag(const std::string& flag, const std::string& text, bool zero = false);

/// What the user answered. It must outlive the CommandLine that it is added to.
struct LossyFlag {
  std::string answer = "never";
  void add_to(CommandLine& command);
  bool allowed() const { return answer == "allow"; }
};

void add_allow_commands(CommandLine& command);

}  // namespace moesim
