// SPDX-License-Identifier: Apache-2.0
// Every key of a scenario file as a flag.
#pragma once

#include <string>
#include <vector>

#include "sim/scenario/scenario.h"

namespace CLI {
class App;
}

namespace moesim {

/// What the flags said; flags win over the file.
class ScenarioFlags {
 public:
  /// Adds the positional SCENARIO and one flag per key.
  void add_to(CLI::App& command);
  Scenario read() const;

 private:
  std::string file_;
  std::vector<std::string> topology_, policy_, fidelity_, set_, layers_;
  std::string model_, trace_, ep_, tokens_per_rank_, repeat_, steps_, pass_;
};

}  // namespace moesim
