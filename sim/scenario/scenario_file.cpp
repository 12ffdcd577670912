// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "sim/base/data_files.h"
#include "sim/base/error.h"
#include "sim/base/files.h"
#include "sim/scenario/scenario.h"

namespace moesim {

std::string scenario_file(const std::string& given) {
  if (is_there(given) && !is_folder(given)) return given;
  const auto is_one_of = [&](const char* kind) {
    const auto names = data_names(kind);
    return std::ranges::find(names, given) != names.end();
  };
  using Input = std::pair<const char*, const char*>;
  for (const auto& [kind, flag] :
       {Input{"topologies", "topology"}, {"models", "model"}, {"models/system", "policy"}}) {
    if (is_one_of("scenarios") || !is_one_of(kind)) continue;
    throw Error(fmt::format("'{}' is a {}, not a scenario", given, flag),
                fmt::format("--{} {}", flag, given));
  }
  return data_file("scenarios", given);
}

}  // namespace moesim
