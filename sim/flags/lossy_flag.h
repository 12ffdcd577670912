// SPDX-License-Identifier: Apache-2.0
// --lossy: whether policies that compute something else may be named the best.
#pragma once

#include <string>

#include "sim/flags/command_line.h"

namespace moesim {

/// The answer of a command line; it must outlive it.
struct LossyFlag {
  std::string answer = "never";
  void add_to(CommandLine& command);
  bool allowed() const { return answer == "allow"; }
};

}  // namespace moesim
