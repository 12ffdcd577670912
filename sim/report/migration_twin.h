// SPDX-License-Identifier: Apache-2.0
// What tells whether two cases differ in nothing but the placement of experts.
#pragma once

#include <string>

namespace moesim {

struct MigrationTwin {
  std::string but_placement = {};  // SystemSpec::but_placement; empty: unknown
  bool fixed = false;              // its placement decides nothing from loads
  bool operator==(const MigrationTwin&) const = default;
};

}  // namespace moesim
