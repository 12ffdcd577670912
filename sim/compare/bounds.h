// SPDX-License-Identifier: Apache-2.0
// moesim compare --bounds: token exchanges alone against the least that any dispatch needs.
#pragma once

#include <vector>

#include "sim/report/bounds_table.h"
#include "sim/scenario/inputs.h"

namespace moesim {

/// Over all replayed layers of the first step, at `port`, per topology and policy, without those
/// that the topology cannot host. The inputs must outlive them. Throws std::logic_error when an
/// exchange beats its bound.
std::vector<PolicyBounds> bounds(const Scenario& scenario, const Inputs& inputs, int workers);

}  // namespace moesim
