// SPDX-License-Identifier: Apache-2.0
// Times on command lines, which are longer than those of steps.
#pragma once

#include <string>

#include "sim/base/types.h"

namespace moesim {

/// "10min", "90 s", "2000 h", "30 d"; "0 s" if `zero`. Throws Error naming the flag, with an
/// example.
Seconds time_of_flag(const std::string& flag, const std::string& text, bool zero = false);

}  // namespace moesim
