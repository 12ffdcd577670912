// SPDX-License-Identifier: Apache-2.0
// A small scenario: tiny-moe on a node of 8 GPUs.
#pragma once

#include <string>
#include <vector>

#include "sim/scenario/inputs.h"

namespace moesim {

inline Scenario scenario_of(const std::string& policies, const std::vector<Override>& more = {}) {
  std::vector<Override> flags = {{"topology", "h100-rail", "t"},   {"model", "tiny-moe", "m"},
                                 {"trace", "tiny-moe-train", "r"}, {"policy", policies, "p"},
                                 {"layers", "recorded", "l"},      {"steps", "3:6", "s"},
                                 {"set", "topology.nodes=1", "n"}};
  flags.insert(flags.end(), more.begin(), more.end());
  return read_scenario("", flags);
}

}  // namespace moesim
