// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "sim/scenario/inputs.h"

namespace moesim {

/// What the software of an iteration assumes of state, GPUs, hosts and dispatches, as lines of the
/// header; empty for steps.
std::string software_text(const Scenario& scenario, const Inputs& inputs);

}  // namespace moesim
