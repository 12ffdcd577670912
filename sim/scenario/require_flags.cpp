// SPDX-License-Identifier: Apache-2.0
#include "sim/scenario/require_flags.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/scenario/dense_model.h"
#include "sim/scenario/scenario_synth.h"

namespace moesim {

void require_flags(const std::vector<Override>& flags) {
  std::vector<std::string> missing;
  for (const char* key : {"topology", "model", "trace", "policy"}) {
    // Balanced routing plays no choices, and `synth` draws them.
    const auto names_it = [&](const Override& flag) {
      if (flag.path == key) return true;
      if (std::string(key) != "trace") return false;
      return is_synth_key(flag.path == "set" ? flag.value : flag.path) ||
             (flag.path == "routing" &&
              (flag.value == "balanced" || flag.value == R"(["balanced"])"));
    };
    if (std::none_of(flags.begin(), flags.end(), names_it)) {
      missing.push_back(fmt::format("--{}", key));
    }
  }
  if (!missing.empty() && flags_name_dense_model(flags)) {
    std::erase_if(missing,
                  [](const auto& flag) { return flag == "--trace" || flag == "--policy"; });
  }
  if (missing.empty()) return;
  require_model_of(flags);
  throw Error(fmt::format("no scenario file, and no {}", fmt::join(missing, ", ")),
              "name a scenario file, or give these flags; --synth draws a trace");
}

}  // namespace moesim
