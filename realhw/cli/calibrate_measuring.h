// SPDX-License-Identifier: Apache-2.0
// The measuring of a calibration, begun or resumed.
#pragma once

#include <string>
#include <vector>

#include "realhw/calibrate/calibration.h"
#include "realhw/cli/commands.h"
#include "sim/flags/command_line.h"

namespace moesim {

class CalibrateMeasuring {
 public:
  void add_to(CommandLine& command);
  const std::vector<Flag>& options() const { return options_; }

  /// Leaves all times in their file; all ranks together. False when the input is bad, which has
  /// been told then.
  bool measure(Job& job, const CalibrationRun& what, const std::string& times) const;

 private:
  bool resume_ = false;
  BackendFlags backend_;
  std::vector<Flag> options_;
};

}  // namespace moesim
