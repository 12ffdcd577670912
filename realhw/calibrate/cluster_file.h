// SPDX-License-Identifier: Apache-2.0
// Writes what read_cluster_calibration reads, and all that it names: measured GPU models and fitted
// exchanges, as files that topologies read and as tables for people.
#pragma once

#include <map>
#include <string>

#include "realhw/calibrate/calibration_files.h"
#include "realhw/calibrate/exchange_fit.h"
#include "realhw/calibrate/kernel_fit.h"
#include "realhw/calibrate/provenance.h"

namespace moesim {

/// PREFIX-CLASS.calib.yaml, which read_calibration reads.
std::string link_yaml(const std::string& name, const ClassFit& fit, const Provenance& provenance);

/// Overheads, tables with residuals and confidence.
std::string exchange_report(const ExchangeFit& fit);

/// One row per plan: how far simulated times are from those measured.
std::string check_report(const std::vector<ExchangeCheck>& checks);

/// PREFIX.gpu.yaml. `stated` is the model that it takes the place of.
std::string gpu_yaml(const std::string& name, const std::string& stated, const GpuFit& fit,
                     const Provenance& provenance);

std::string kernel_report(const std::string& name, const GpuFit& fit);
std::string overlap_report(const OverlapFit& fit);

/// Writes all of them. Throws Error when that fails.
void write_calibration(const CalibrationFiles& files, const ExchangeFit& exchanges,
                       const std::map<std::string, GpuFit>& gpus, const Provenance& provenance);

}  // namespace moesim
