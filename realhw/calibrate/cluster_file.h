// SPDX-License-Identifier: Apache-2.0
// The files of a calibration: what read_cluster_calibration reads, and all that it names.
#pragma once

#include <string>

#include "realhw/calibrate/exchange_fit.h"
#include "realhw/calibrate/kernel_fit.h"
#include "realhw/calibrate/provenance.h"

namespace moesim {

/// PREFIX.calib.yaml, one PREFIX-CLASS.calib.yaml per link class, and PREFIX.gpu.yaml: one per GPU
/// model where there are several, PREFIX-MODEL.gpu.yaml.
struct CalibrationFiles {
  explicit CalibrationFiles(std::string prefix);
  std::string name() const;  // of the calibration: the prefix without its folders
  std::string cluster() const { return prefix + ".calib.yaml"; }
  std::string times() const { return prefix + ".times.jsonl"; }
  std::string link(const std::string& link_class) const;
  std::string gpu(const std::string& model, bool alone) const;

  std::string prefix;
};

/// Writes all of them. Throws Error when that fails.
void write_calibration(const CalibrationFiles& files, const ExchangeFit& exchanges,
                       const std::map<std::string, GpuFit>& gpus, const Provenance& provenance);

}  // namespace moesim
