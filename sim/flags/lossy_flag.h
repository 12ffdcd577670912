// SPDX-License-Identifier: Apache-2.0
// --lossy: whether policies that compute something else than the model may be named the best.
#pragma once

#include <string>

#include "sim/flags/command_line.h"

namespace moesim {

/// What the user answered. It must outlive the CommandLine that it is added to.
struct LossyFlag {
  std::string answer = "never";
  void add_to(CommandLine& command);
  bool allowed() const { return answer == "allow"; }
};

}  // namespace moesim
