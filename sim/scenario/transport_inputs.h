// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "sim/base/error.h"
#include "sim/base/files.h"
#include "sim/planner/system.h"
#include "sim/scenario/scenario.h"

namespace moesim {

struct InputCache;

/// Gives every policy what carries its exchanges in this scenario; returns the files read for it,
/// by name. Changes of a transport that none has are warnings.
std::vector<InputFile> open_transports(const Scenario& scenario, std::vector<SystemSpec>& systems,
                                       std::vector<Diagnostic>& warnings, InputCache& cache);

}  // namespace moesim
