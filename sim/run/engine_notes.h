// SPDX-License-Identifier: Apache-2.0
// Lines below the table of engines.
#pragma once

#include <string>
#include <vector>

#include "sim/run/engine_cases.h"

namespace moesim {

/// What figures of runs need to be read: kernels that are not for passes as large, answers long
/// after the last request, errors of reused prices.
std::string figure_notes(const Scenario& scenario, const std::vector<const EngineCase*>& ran);
/// Of cases that were run: all that the table does not say.
std::string engine_notes(const Scenario& scenario, const std::vector<const EngineCase*>& ran);

}  // namespace moesim
