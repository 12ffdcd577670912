// SPDX-License-Identifier: Apache-2.0
// The keys under `serving` about several instances: pools, links between them, and losses.
#pragma once

#include "sim/base/yaml.h"
#include "sim/scenario/engine_run.h"

namespace moesim {

/// Reads `instances`, `decode`, `transfer` and `losses` of a scenario's `serving`; mistakes are
/// recorded.
void read_deployment(const YamlMap& scenario, const YamlMap& serving, EngineRun& run);

}  // namespace moesim
