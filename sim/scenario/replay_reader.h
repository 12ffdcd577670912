// SPDX-License-Identifier: Apache-2.0
// Whose tokens an iteration replays, and how many microbatches differ.
#pragma once

#include "sim/base/yaml.h"
#include "sim/planner/iteration/iteration_spec.h"

namespace moesim {

/// Reads `microbatches` and `routing`.
void read_replay(const YamlMap& scenario, IterationSpec& spec);

}  // namespace moesim
