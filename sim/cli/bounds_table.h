// SPDX-License-Identifier: Apache-2.0
// moesim compare --bounds: token exchanges alone against the least that any dispatch needs.
#pragma once

#include <string>

#include "sim/scenario/inputs.h"

namespace moesim {

/// One line per topology and policy, over all replayed layers of the first step: phases (d* where
/// the depth is chosen), time of the token exchanges alone at `port`, the sum of their lower
/// bounds, bytes per link class. Throws std::logic_error when an exchange beats its bound.
std::string bounds_table(const Scenario& scenario, const Inputs& inputs, int workers);

}  // namespace moesim
