// SPDX-License-Identifier: Apache-2.0
// Keys of training iterations: whose tokens they replay, and what runs during the passes.
#pragma once

#include "sim/base/yaml.h"
#include "sim/model/software.h"
#include "sim/planner/iteration/iteration_spec.h"

namespace moesim {

/// Reads `microbatches` and `routing`.
void read_replay(const YamlMap& scenario, IterationSpec& spec);

/// Reads `overlap`, what runs during the passes. It comes after the pipeline, `zero` and
/// `recompute`, because a wrong combination with these is recorded, too.
void read_overlap(const YamlMap& scenario, const Software& software, IterationSpec& spec);

}  // namespace moesim
