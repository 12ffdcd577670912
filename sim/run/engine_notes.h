// SPDX-License-Identifier: Apache-2.0
// Lines below the table of engines.
#pragma once

#include <string>
#include <vector>

#include "sim/run/engine_cases.h"

namespace moesim {

/// Of cases that were run: what the table does not say.
std::string engine_notes(const Scenario& scenario, const std::vector<const EngineCase*>& ran);

}  // namespace moesim
