// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/divided_experts.h"

namespace moesim {

bool divides_experts(const std::string& placement) {
  return placement == "fsdp-ep" || placement == "dynamic-grouping";
}

}  // namespace moesim
