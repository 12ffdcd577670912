// SPDX-License-Identifier: Apache-2.0
// What the page asks to be simulated.
#pragma once

#include <string>
#include <vector>

#include "sim/base/yaml.h"

namespace moesim {

/// The scenario that the command line named, and what its flags said.
struct GivenScenario {
  std::string file;
  std::vector<Override> overrides;
};

/// `given` is the name of the scenario of the command line.
inline constexpr const char* given_base = "given";

struct AskedRun {
  enum class Kind { compare, explain } kind = Kind::compare;
  std::string base;  // a name of `moesim list scenarios`, given_base, or empty: only flags
  std::string text;  // of a scenario file that was dropped, in place of `base`
  std::vector<Override> overrides;
  bool pictures = true;
  /// In place of the exact answer one that is soon there: iterations on balanced tokens, steps by
  /// formula.
  bool quick = false;
};

/// Reads {kind, base, text, flags: {KEY: VALUE}, set: [PATH=VALUE], pictures, quick}. Keys of flags
/// are those of a scenario. Throws Error for anything else.
AskedRun read_asked(const std::string& json);

}  // namespace moesim
