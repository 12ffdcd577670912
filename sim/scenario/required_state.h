// SPDX-License-Identifier: Apache-2.0
// What a scenario needs of memory whatever is planned for it.
#pragma once

#include "sim/scenario/inputs.h"

namespace moesim {

/// Throws Unsuitable for a training iteration whose state alone does not fit, before anything of it
/// is planned, if the scenario asks; Error as PolicyPlanner.
void require_state(const PolicyView& view, const ClusterInput& cluster);

}  // namespace moesim
