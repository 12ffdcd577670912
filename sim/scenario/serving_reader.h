// SPDX-License-Identifier: Apache-2.0
// The keys of a scenario that describe one pass of a serving engine.
#pragma once

#include <string>

#include "sim/base/yaml.h"
#include "sim/model/software.h"
#include "sim/planner/iteration/iteration_spec.h"

namespace moesim {

/// Whether the scenario is of serving: it has `serving`.
bool is_serving(const YamlMap& scenario);

/// Reads `serving` into a spec whose sizes are known. Records mistakes, among them
/// keys of training.
void read_serving(const YamlMap& scenario, IterationSpec& spec);

struct Scenario;
/// What an engine holds unless the scenario says so: the model's published checkpoint.
void serve_checkpoint(Scenario& scenario);

}  // namespace moesim
