// SPDX-License-Identifier: Apache-2.0
// Transport YAML files, transports/*.yaml. See docs/transports.md.
#pragma once

#include <functional>
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

/// What carries exchanges on a transport: nothing if that is ideal.
TransportPtr unless_ideal(Transport transport);

/// The shipped transport of that name, or of that path, as it is in its file.
TransportPtr find_transport(const std::string& name);

/// The transport of that name or path with all that it needs, such as that of other exchanges.
/// `find` gives each, null if it is ideal.
Transports find_transports(
    const std::string& name,
    const std::function<TransportPtr(const std::string&)>& find = find_transport);

}  // namespace moesim
