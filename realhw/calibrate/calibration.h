// SPDX-License-Identifier: Apache-2.0
// What a calibration measures: planned on the spot, or saved where it was planned.
#pragma once

#include <string>
#include <vector>

#include "realhw/calibrate/calibration_files.h"
#include "realhw/calibrate/calibration_origin.h"
#include "realhw/calibrate/micro_plan.h"
#include "sim/base/error.h"

namespace moesim {

class CalibrationRun {
 public:
  virtual ~CalibrationRun() = default;
  virtual const CalibrationOrigin& origin() const = 0;
  /// All that is measured, checked; no two of a name.
  virtual std::vector<const MicroPlan*> plans() const = 0;
  virtual std::vector<Diagnostic> warnings() const { return {}; }
  /// Makes what can be made here of the file of times, which has them all, and says it for people.
  virtual std::string conclude(const CalibrationFiles& files) const = 0;
};

}  // namespace moesim
