// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "sim/scenario/changes.h"

namespace moesim {

/// "path=value" of each change.
inline std::vector<std::string> pairs_of(const std::vector<Override>& changes) {
  std::vector<std::string> pairs;
  for (const Override& change : changes) pairs.push_back(change.path + "=" + change.value);
  return pairs;
}

}  // namespace moesim
