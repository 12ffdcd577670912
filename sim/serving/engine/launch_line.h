// SPDX-License-Identifier: Apache-2.0
// The command that starts an engine as it was simulated.
#pragma once

#include <string>

#include "sim/serving/engine/engine_reader.h"

namespace moesim {

/// One instance; also the names in LaunchTexts: {model}, {gpus}, {tp}, {dp}, {ep}, {tokens},
/// {memory}.
struct LaunchFacts {
  enum class Pool { all, prompts, decode };
  std::string model;  // as the scenario names it
  int gpus = 1, tp = 1, dp = 1, ep = 1;
  std::string dispatch;  // its kind
  Pool pool = Pool::all;
};

/// Empty if the preset has no texts.
std::string launch_line(const EngineModel& engine, const LaunchFacts& facts);

}  // namespace moesim
