// SPDX-License-Identifier: Apache-2.0
// The command that starts an engine as it was simulated.
#pragma once

#include <string>
#include <vector>

#include "sim/serving/engine/engine_reader.h"

namespace moesim {

/// A setting that is not the preset's, by its path in YAML.
struct LaunchSetting {
  std::string key, value;
  std::string text() const { return key + ": " + value; }
};
/// Of the engine, where it differs from its preset. Times that describe an engine are none.
std::vector<LaunchSetting> settings_of(const EngineModel& engine, const EngineModel& preset);

/// One instance; also the names in LaunchTexts: {model}, {gpus}, {tp}, {dp}, {ep}, {dcp}, {drafts},
/// {verified} (1 + drafts), {tokens}, {memory}.
struct LaunchFacts {
  enum class Pool { all, prompts, decode };
  std::string model;  // as the scenario names it
  int gpus = 1, tp = 1, dp = 1, ep = 1;
  std::string dispatch;  // its kind
  Pool pool = Pool::all;
  std::string overlap = "none";
  int dcp = 1, drafts = 0;
  std::vector<LaunchSetting> settings = {};
};

/// Empty if the preset has no texts.
std::string launch_line(const EngineModel& engine, const LaunchFacts& facts);
/// What of the instance the line cannot say, as no flag of the engine is known: "overlap:
/// two-batch, dcp: 2, kv.block: 32".
std::string left_out_of_line(const EngineModel& engine, const LaunchFacts& facts);

}  // namespace moesim
