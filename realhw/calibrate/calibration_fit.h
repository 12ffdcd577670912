// SPDX-License-Identifier: Apache-2.0
// From a calibration's times to its files.
#pragma once

#include <string>

#include "realhw/calibrate/planned_calibration.h"
#include "realhw/calibrate/times_file.h"

namespace moesim {

/// Fits times, writes the files and returns what they say for people. `file` is where the times
/// come from. Throws Error when some are missing or of other plans, or a file cannot be written.
std::string fit_calibration(const PlannedCalibration& planned, const TimesRead& read,
                            const std::string& file, const CalibrationFiles& files);

/// The same wherever the times were measured: plans again what they are of. Throws Error when
/// topology or model have changed.
std::string fit_times(const std::string& file, const CalibrationFiles& files);

}  // namespace moesim
