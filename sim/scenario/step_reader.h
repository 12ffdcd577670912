// SPDX-License-Identifier: Apache-2.0
// The keys of a scenario that say which steps and layers of a trace are simulated. Mistakes are
// recorded in the document.
#pragma once

#include <string>
#include <vector>

#include "sim/base/yaml.h"
#include "sim/scenario/scenario.h"

namespace moesim {

/// One value, or a list of at least one.
std::vector<YamlValue> one_or_more(const YamlValue& value);

/// The key that recorded routing needs.
std::string recorded_trace(const YamlMap& map);
/// Steps that share a sum of gradients; 0: "never".
int read_accumulate(const YamlMap& map);
/// "all", "3" or "a:b" (b excluded).
StepRange read_step_range(const YamlMap& map);
int read_warmup(const YamlMap& map, const StepRange& steps);
/// "all", "recorded", or a list of model layer numbers.
void read_layers(const YamlMap& map, Scenario& scenario);

}  // namespace moesim
