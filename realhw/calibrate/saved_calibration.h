// SPDX-License-Identifier: Apache-2.0
// A planned calibration in a file, for machines that only measure (docs/gpu.md).
#pragma once

#include <memory>
#include <string>

#include "realhw/calibrate/calibration.h"

namespace moesim {

/// The file's content: gzip of JSON lines: a header, one per plan, and the hash of these. The same
/// calibration gives the same bytes.
std::string pack_calibration(const CalibrationRun& calibration);

/// Reads a file with the content of pack_calibration. Throws Error with file and line for what is
/// cut short, altered, of another version, or does not fit together.
std::unique_ptr<CalibrationRun> saved_calibration(const std::string& path);

}  // namespace moesim
