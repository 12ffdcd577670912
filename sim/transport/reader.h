// SPDX-License-Identifier: Apache-2.0
// Transport YAML files, transports/*.yaml. See docs/transports.md.
#pragma once

#include <string>
#include <vector>

#include "sim/base/yaml.h"
#include "sim/transport/transport.h"

namespace moesim {

/// Reads a file; throws Error with all its mistakes.
Transport read_transport(const std::string& path, const std::vector<Override>& overrides = {});
/// The same from text; `name` stands for the file in messages.
Transport parse_transport(const std::string& text, const std::string& name,
                          const std::vector<Override>& overrides = {});

}  // namespace moesim
