// SPDX-License-Identifier: Apache-2.0
#include "sim/scenario/data_sheets.h"

#include <fmt/format.h>

#include "sim/base/data_files.h"
#include "sim/base/units.h"

namespace moesim {
namespace {

std::string family_of(const std::string& name) { return name.substr(0, name.find('-')); }

}  // namespace

std::string data_sheet_of(const std::string& gpu) {
  for (const std::string& shipped : data_names("models/gpu")) {
    const bool fitted = shipped.ends_with("-measured") || shipped.ends_with("-training");
    if (!fitted && family_of(shipped) == family_of(gpu)) return shipped;
  }
  return "";
}

std::vector<Diagnostic> doubled_figures(const std::string& file, const GpuModel& gpu,
                                        const GpuModel& sheet) {
  std::vector<Diagnostic> warnings;
  const auto check = [&](const std::string& key, auto is, auto by_sheet, const char* why) {
    const double times = is.value / by_sheet.value;
    if (times < 1.9 || times > 2.1) return;
    warnings.push_back({Severity::warning, file, 0, 0,
                        fmt::format("'{}' is {}: the data sheet of {} has {}", key, to_string(is),
                                    sheet.name, to_string(by_sheet)),
                        "", why});
  };
  check("memory_bandwidth", gpu.memory_bandwidth, sheet.memory_bandwidth, "");
  for (const auto& [type, rate] : gpu.peak) {
    const auto known = sheet.peak.find(type);
    if (known == sheet.peak.end()) continue;
    check(fmt::format("peak.{}", name_of(type)), rate, known->second,
          "dense rates are meant; those with sparsity are twice as high");
  }
  return warnings;
}

}  // namespace moesim
