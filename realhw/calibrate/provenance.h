// SPDX-License-Identifier: Apache-2.0
// Where measured figures come from: hardware, libraries, date and command.
#pragma once

#include <string>
#include <vector>

#include "realhw/calibrate/rounds.h"

namespace moesim {

struct Provenance {
  std::string moesim;    // release
  std::string command;   // as given
  std::string date;      // when the calibration began, UTC
  std::string backend;   // and its libraries
  std::string topology;  // name, and its overrides
  std::string model;
  std::vector<std::string> processors;  // distinct ones of all ranks
  std::vector<std::string> hosts;       // distinct, in the order of ranks
  int ranks = 0;
  RoundOptions rounds;
};

/// Of the running job; release, topology and model are left to the caller. All ranks together.
Provenance provenance_of(Job& job, const HardwareBackend& backend, const RoundOptions& rounds);

/// The key `provenance` of a YAML file.
std::string yaml_of(const Provenance& provenance);

}  // namespace moesim
