// SPDX-License-Identifier: Apache-2.0
// Writes what read_cluster_calibration reads, and all that it names.
#pragma once

#include <map>
#include <string>

#include "realhw/calibrate/calibration_files.h"
#include "realhw/calibrate/exchange_fit.h"
#include "realhw/calibrate/kernel_fit.h"
#include "realhw/calibrate/provenance.h"

namespace moesim {

/// Writes all of them. Throws Error when that fails.
void write_calibration(const CalibrationFiles& files, const ExchangeFit& exchanges,
                       const std::map<std::string, GpuFit>& gpus, const Provenance& provenance);

}  // namespace moesim
