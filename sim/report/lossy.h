// SPDX-License-Identifier: Apache-2.0
// How tables and documents say what a case loses (sim/plan/loss.h).
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "sim/plan/loss.h"
#include "sim/print/table.h"

namespace moesim {

/// Loss::text, "-" if nothing is lost.
Cell lossy_cell(const Loss& loss);
/// Adds `lossy`, Loss::text; if it is not empty also `loss`, the figures behind it.
void add_loss(nlohmann::ordered_json& json, const Loss& loss);

}  // namespace moesim
