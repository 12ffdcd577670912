// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sim/base/yaml.h"
#include "sim/model/software.h"
#include "sim/planner/iteration/iteration_spec.h"

namespace moesim {

/// Reads `overlap`, what runs during the passes. It comes after the pipeline, `zero` and
/// `recompute`, because a wrong combination with these is recorded, too.
void read_overlap(const YamlMap& scenario, const Software& software, IterationSpec& spec);

}  // namespace moesim
