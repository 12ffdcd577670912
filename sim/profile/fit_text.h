// SPDX-License-Identifier: Apache-2.0
// A fit to a profile as the files that scenarios read, and as a report.
#pragma once

#include <string>
#include <vector>

#include "sim/print/table.h"
#include "sim/profile/profile_fit.h"

namespace moesim {

struct FitText {
  std::string name;      // of the files, without a folder
  std::string command;   // that made it
  std::string gpu;       // the model that the fitted one is based on, by name
  std::string gpu_file;  // the text of its file
  std::string die;       // empty: unstated
  std::string software;  // that the fitted one is based on
  Seconds exchange_overhead;
  bool overhead_given = false;
};

struct FittedFile {
  std::string ending;  // ".gpu.yaml"
  std::string text;
};

/// The base's file with the fitted tables and the part of its rates that other kernels keep, the
/// software, a table per link, and NAME.calib.yaml, which a topology takes by `calibration`.
std::vector<FittedFile> fitted_files(const ProfileFit& fit, const FitText& text);

Printout fit_report(const ProfileFit& fit, const FitText& text);

/// The text of a YAML file without some of its top-level keys and what is below them.
std::string without_keys(const std::string& yaml, const std::vector<std::string>& keys);

}  // namespace moesim
