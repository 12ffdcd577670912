// SPDX-License-Identifier: Apache-2.0
// moesim's own shared libraries: code that few commands need or that loads slowly.
#pragma once

#include <string>

namespace moesim {

/// A function of a library, or why there is none.
struct LoadedFunction {
  void* function = nullptr;
  std::string missing = {};
};

/// Loads a library of moesim's and finds a function in it. `built` is the library's path below the
/// build folder, for programs that are in it; others have it where they were installed. It stays
/// loaded as long as the process lives.
LoadedFunction load_function(const std::string& built, const char* name);

}  // namespace moesim
