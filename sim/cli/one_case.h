// SPDX-License-Identifier: Apache-2.0
// Commands that take one topology and one policy.
#pragma once

#include <string>

#include "sim/scenario/scenario.h"

namespace moesim {

/// Throws Error unless the scenario has one topology and one policy; `command` as the user typed
/// it. The hint is the flags that choose the first of several.
void check_one_case(const Scenario& scenario, const std::string& command);

}  // namespace moesim
