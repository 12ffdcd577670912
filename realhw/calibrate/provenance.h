// SPDX-License-Identifier: Apache-2.0
// Where measured figures come from: hardware, libraries, date and command.
#pragma once

#include <string>
#include <vector>

#include "realhw/calibrate/calibration_origin.h"
#include "realhw/core/step_runner.h"
#include "realhw/job/job.h"

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
  std::vector<int> sms = {};  // multiprocessors of the GPU, by rank; empty if unknown

  /// What is measured: topology, model, ranks and rounds.
  void set_origin(const CalibrationOrigin& origin);
};

/// Provenance of the running job; all ranks together.
Provenance provenance_of(Job& job, const HardwareBackend& backend, const CalibrationOrigin& origin);

/// Provenance of times that began with one and continue with another: the first, with the hosts of
/// both. Throws Error in the file of times when backend, processors or GPUs are others.
Provenance continued(Provenance first, const Provenance& now, const std::string& file);

/// The key `provenance` of a YAML file.
std::string yaml_of(const Provenance& provenance);

/// Two lines for people: who measures how many plans where.
std::string header_of(const Provenance& provenance, std::size_t plans);

}  // namespace moesim
