// SPDX-License-Identifier: Apache-2.0
#include "realhw/calibrate/calibration_files.h"

#include <fmt/format.h>

#include <filesystem>
#include <utility>

namespace moesim {

std::string file_name(const std::string& path) {
  return std::filesystem::path(path).filename().string();
}

CalibrationFiles::CalibrationFiles(std::string p) : prefix(std::move(p)) {}

std::string CalibrationFiles::name() const { return file_name(prefix); }

std::string CalibrationFiles::link(const std::string& link_class) const {
  return fmt::format("{}-{}.calib.yaml", prefix, link_class);
}

std::string CalibrationFiles::gpu(const std::string& model, bool alone) const {
  return alone ? prefix + ".gpu.yaml" : fmt::format("{}-{}.gpu.yaml", prefix, file_name(model));
}

}  // namespace moesim
