// SPDX-License-Identifier: Apache-2.0
// The measuring of a calibration, begun or resumed.
#pragma once

#include <string>
#include <vector>

#include "realhw/calibrate/calibration.h"
#include "realhw/cli/commands.h"

namespace CLI {
class Option;
}

namespace moesim {

class CalibrateMeasuring {
 public:
  void add_to(CLI::App& command);
  const std::vector<CLI::Option*>& options() const { return options_; }

  /// Leaves all times in their file; all ranks together. False when the input is bad, which has
  /// been told then.
  bool measure(Job& job, const Calibration& what, const std::string& times) const;

 private:
  bool resume_ = false;
  BackendFlags backend_;
  std::vector<CLI::Option*> options_;
};

}  // namespace moesim
