// SPDX-License-Identifier: Apache-2.0
#include "sim/scenario/require_flags.h"

#include <fmt/format.h>

#include <algorithm>

namespace moesim {

void require_flags(const std::vector<Override>& flags) {
  std::vector<std::string> missing;
  for (const char* key : {"topology", "model", "trace", "policy"}) {
    // Balanced routing alone plays nothing recorded.
    const auto names_it = [&](const Override& flag) {
      return flag.path == key || (std::string(key) == "trace" && flag.path == "routing" &&
                                  (flag.value == "balanced" || flag.value == R"(["balanced"])"));
    };
    if (std::none_of(flags.begin(), flags.end(), names_it)) {
      missing.push_back(fmt::format("--{}", key));
    }
  }
  if (missing.empty()) return;
  throw Error(fmt::format("no scenario file, and no {}", fmt::join(missing, ", ")),
              "name a scenario file, or give these flags");
}

}  // namespace moesim
