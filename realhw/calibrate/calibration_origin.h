// SPDX-License-Identifier: Apache-2.0
// What a calibration is of: enough to name it, and to plan it again if there is YAML.
#pragma once

#include <string>
#include <vector>

#include "realhw/core/expert_shape.h"

namespace moesim {

struct RoundOptions {
  int rounds = 5;
  int repeats = 3;  // runs that count, of a plan in a round, after one that is compared
};

/// As flags of moesim-hw calibrate say it.
struct CalibrationInputs {
  std::string topology, model;   // names, or files
  std::vector<std::string> set;  // topology.KEY=VALUE or model.KEY=VALUE
  bool quick = false;
  int rounds = 0;      // 0: by quick
  double longest = 0;  // ms; 0: by quick
  int rows = 0;        // 0: by quick
};

struct CalibrationOrigin {
  std::string moesim;  // release that planned it
  CalibrationInputs inputs;
  std::string topology, model;  // names, and their overrides
  std::string cluster;          // hash of the topology as it was read
  int ranks = 0;
  ExpertShape shape{0, 0, false};
  RoundOptions rounds;
  std::string plans;  // identity_of them
};

}  // namespace moesim
