// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "sim/scenario/scenario.h"

namespace moesim {

/// Throws Error unless flags name every input of a scenario without a file.
void require_flags(const std::vector<Override>& flags);

}  // namespace moesim
