// SPDX-License-Identifier: Apache-2.0
// The file that a measurement on hardware leaves: what was executed, and every time. It holds the
// scenario, so that the simulator can plan the same steps.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/base/yaml.h"
#include "sim/report/op_times.h"

namespace moesim {

/// The place of the median among repeats (the lower one of two).
std::size_t median_index(const std::vector<Seconds>& repeats);

struct HardwareStep {
  std::string plan;              // hash_of_plan
  std::vector<Seconds> repeats;  // makespans
  OpTimes ops;                   // of the median repeat
};

struct HardwareCase {
  std::string policy;
  std::string unsuitable;  // why it was not run; empty: it was
  std::int64_t wrong = 0;  // elements unlike the reference's
  std::vector<HardwareStep> steps;
};

struct HardwareResult {
  std::string file;
  std::string moesim;  // version
  std::string date;
  std::string description;  // of the backend: "Open MPI v4.1.4 (p2p)"
  std::int64_t bytes = 0;   // of the file
  int ranks = 0, hosts = 0, warmup = 0, repeats = 0;
  std::vector<Override> scenario;  // as flags of read_scenario
  std::vector<HardwareCase> cases;
};

/// The hash of a plan's text without token rows: says whether a simulated plan is the measured one.
std::string hash_of_plan(const Plan& plan);

/// Reads what `moesim-hw run --json` wrote (schema: docs/validation.md). Throws Error.
HardwareResult read_hardware_result(const std::string& path);
/// The same from text; `name` stands for the file in messages.
HardwareResult parse_hardware_result(const std::string& text, const std::string& name);

}  // namespace moesim
