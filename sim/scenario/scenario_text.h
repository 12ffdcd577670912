// SPDX-License-Identifier: Apache-2.0
// A scenario written down, flags included: what results and saved steps carry.
#pragma once

#include <string>

#include "sim/scenario/scenario.h"

namespace moesim {

/// The scenario as a file that read_scenario reads alike (JSON, which is YAML).
std::string to_text(const Scenario& scenario);
/// The same as one line, without spaces.
std::string scenario_line(const Scenario& scenario);

}  // namespace moesim
