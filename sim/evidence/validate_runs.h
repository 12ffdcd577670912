// SPDX-License-Identifier: Apache-2.0
// moesim validate: simulates the plans that were measured.
#pragma once

#include <string>
#include <vector>

#include "sim/evidence/validation.h"
#include "sim/scenario/inputs.h"

namespace moesim {

/// What plans are simulated on; they stay the measured ones.
struct SimulatedOn {
  std::string topology;           // another cluster; empty: that of the plans
  std::vector<Override> changes;  // of topology.* and gpu.*
  Fidelity fidelity = Fidelity::port;
};

/// One measured file and what its plans are made of and simulated with.
struct MeasuredRun {
  HardwareResult measured;
  Scenario scenario;
  Inputs planned, simulated;
};

/// Reads a file of moesim-hw run --json and opens its scenario again. Throws Error, also when the
/// cluster has another number of GPUs.
MeasuredRun recall(const std::string& path, const SimulatedOn& on);

/// Plans as for the measurement, simulates and compares, with `workers` processes.
std::vector<ResultValidation> validate_runs(const std::vector<MeasuredRun>& runs, int workers);

}  // namespace moesim
