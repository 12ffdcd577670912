// SPDX-License-Identifier: Apache-2.0
// Measured link tables, topologies/*.calib.yaml, as `moesim calibrate` writes them.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "sim/base/yaml.h"
#include "sim/topology/bandwidth_table.h"

namespace moesim {

struct LinkCalibration {
  std::string name, description, source;
  Seconds latency;  // of one link; the route of an exchange has two of them
  std::shared_ptr<const BandwidthTable> bandwidth;
  std::optional<BytesPerSecond> nominal;  // of the link that was measured, by its data sheet
};

/// A list of {size, rate}. Sizes ascend and no size takes less time than the one before.
/// Records the errors; nothing when there are any.
std::shared_ptr<const BandwidthTable> read_bandwidth_table(const YamlValue& value);

/// The file that a key `calibration` names, by a path or by NAME of NAME.calib.yaml, which may be
/// next to the file of the key. Throws Error when there is none.
std::string calibration_file(const YamlValue& name);

/// Reads a file; throws Error with all its mistakes.
LinkCalibration read_calibration(const std::string& path);

}  // namespace moesim
