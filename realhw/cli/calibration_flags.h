// SPDX-License-Identifier: Apache-2.0
// What a calibration measures: topology and model, if this program can plan, or a saved one.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "realhw/calibrate/calibration.h"
#include "sim/flags/command_line.h"

namespace moesim {

class CalibrationFlags {
 public:
  void add_to(CommandLine& command);
  /// For a job of so many ranks; 0: of as many as there are GPUs. Throws Error as reading does.
  std::unique_ptr<CalibrationRun> open(int ranks) const;

  /// All flags, which do not go with a source of another kind.
  const std::vector<Flag>& options() const { return options_; }

 private:
  std::string saved_;
  CalibrationInputs inputs_;
  std::vector<Flag> options_;
};

}  // namespace moesim
