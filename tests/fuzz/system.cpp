// SPDX-License-Identifier: Apache-2.0
// Published systems.
#include "sim/planner/system.h"

#include "tests/fuzz/target.h"

namespace moesim::fuzz {

const Target system_target{
    "system", [](std::string_view bytes) { parse_system(std::string(bytes), "a.yaml"); }};

}  // namespace moesim::fuzz
