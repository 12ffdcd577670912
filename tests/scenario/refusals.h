// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "sim/base/error.h"
#include "sim/scenario/changes.h"

namespace moesim {

/// The text of the error that `action` throws.
template <class Action>
std::string refusal_of(const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

/// "path=value" of each change.
inline std::vector<std::string> pairs_of(const std::vector<Override>& changes) {
  std::vector<std::string> pairs;
  for (const Override& change : changes) pairs.push_back(change.path + "=" + change.value);
  return pairs;
}

}  // namespace moesim
