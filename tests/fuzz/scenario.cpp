// SPDX-License-Identifier: Apache-2.0
// Scenarios: of steps and of whole iterations.
#include "sim/scenario/scenario.h"

#include "tests/fuzz/target.h"

namespace moesim::fuzz {

const Target scenario_target{"scenario", [](std::string_view bytes) {
                               parse_scenario(std::string(bytes), MOESIM_ROOT "/scenarios/a.yaml",
                                              {});
                             }};

}  // namespace moesim::fuzz
