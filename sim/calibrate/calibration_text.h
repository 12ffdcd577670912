// SPDX-License-Identifier: Apache-2.0
// A fit as the YAML that topologies read, and as a table for people.
#pragma once

#include <string>
#include <vector>

#include "sim/calibrate/link_fit.h"

namespace moesim {

struct CalibrationText {
  std::string name;
  std::string command;        // that made it
  Seconds exchange_overhead;  // the part of the fixed time that topologies state as such
  std::string nominal = {};   // bandwidth of the measured link by its data sheet; empty: unknown
};

/// topologies/*.calib.yaml (read_calibration): `latency` is half of what the fixed time exceeds
/// `exchange_overhead` by, since a route has two links of the class.
std::string calibration_yaml(const LinkFit& fit, const std::vector<Log>& logs,
                             const CalibrationText& text);

/// Fixed time, rates with their confidence, residuals, and what a straight line would miss.
std::string calibration_report(const LinkFit& fit, const std::vector<Log>& logs);

}  // namespace moesim
