// SPDX-License-Identifier: Apache-2.0
// How to start a deployment that was simulated.
#pragma once

#include <string>
#include <vector>

#include "sim/base/yaml.h"
#include "sim/sweep/serving_candidates.h"

namespace moesim {

/// A command for each pool, and what of it no flag says.
std::string launch_text(const std::string& file, const std::vector<Override>& flags,
                        const std::vector<ServingInstanceKind>& kinds, const ServingPlan& plan);

}  // namespace moesim
