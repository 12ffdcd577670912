// SPDX-License-Identifier: Apache-2.0
// A published system: a named combination of mechanisms, what models/system/*.yaml describes.
#pragma once

#include <string>
#include <vector>

#include "sim/base/yaml.h"

namespace moesim {

/// Indices into the tables of policies.h.
struct SystemSpec {
  std::string name;
  std::string description;
  std::string source;
  int routing = 0;
  int placement = 0;
  int dispatch = 0;
  int schedule = 0;
};

/// Reads models/system/*.yaml; throws Error with all its mistakes.
SystemSpec read_system(const std::string& path, const std::vector<Override>& overrides = {});
SystemSpec parse_system(const std::string& text, const std::string& name,
                        const std::vector<Override>& overrides = {});

}  // namespace moesim
