// SPDX-License-Identifier: Apache-2.0
// Origin and provenance of a calibration as JSON, for the first lines of its files.
#pragma once

#include <nlohmann/json.hpp>

#include "realhw/calibrate/calibration_origin.h"
#include "realhw/calibrate/provenance.h"

namespace moesim {

nlohmann::ordered_json origin_json(const CalibrationOrigin& origin);

/// Throws nlohmann's exceptions if a part is missing or of another kind, and Error for numbers that
/// cannot be.
CalibrationOrigin read_calibration_origin(const nlohmann::ordered_json& json);

/// What the origin does not say.
nlohmann::ordered_json provenance_json(const Provenance& provenance);

/// Throws nlohmann's exceptions if a part is missing or of another kind.
Provenance read_provenance(const nlohmann::ordered_json& json, const CalibrationOrigin& origin);

}  // namespace moesim
