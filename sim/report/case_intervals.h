// SPDX-License-Identifier: Apache-2.0
// How sure a time and a speedup are.
#pragma once

#include <string>
#include <vector>

namespace moesim {

/// 90 % intervals by sampling and by errors of the simulator (docs/error-bars.md).
struct CaseIntervals {
  struct Ends {
    double low = 0, high = 0;
    bool holds(double value) const { return low <= value && value <= high; }
  };
  Ends seconds, speedup;                // of a step or iteration; over its baseline
  std::vector<std::string> unmeasured;  // what it rests on and nobody measured; it widens them
  std::string told_apart;  // from its baseline: "yes", "no, 12 steps", "measure tokens"; "" of that
};

}  // namespace moesim
