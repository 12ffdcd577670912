// SPDX-License-Identifier: Apache-2.0
// The names of a calibration's files.
#pragma once

#include <string>

namespace moesim {

/// PREFIX.calib.yaml, one PREFIX-CLASS.calib.yaml per link class, and PREFIX.gpu.yaml: one per GPU
/// model if there are several, PREFIX-MODEL.gpu.yaml.
struct CalibrationFiles {
  explicit CalibrationFiles(std::string prefix);
  std::string name() const;  // of the calibration: the prefix without its folders
  std::string cluster() const { return prefix + ".calib.yaml"; }
  std::string times() const { return prefix + ".times.jsonl"; }
  std::string link(const std::string& link_class) const;
  std::string gpu(const std::string& model, bool alone) const;

  std::string prefix;
};

/// A path without its folders.
std::string file_name(const std::string& path);

}  // namespace moesim
