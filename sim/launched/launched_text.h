// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "sim/launched/launched.h"

namespace moesim {

/// What a launch does not say of its scenario.
struct LaunchedInputs {
  std::string scenario;  // the file that is written
  std::string topology, model;
  std::string routing_lines;  // "trace: ..." or "synth: ..." with its end of line; empty: none
};

/// Whether tokens have to be routed: there are experts, and not all get as many.
bool needs_routing(const Launched& launched, int experts);

/// The commented scenario.
std::string text_of_launch(const Launched& launched, const LaunchedInputs& inputs, int experts);

}  // namespace moesim
