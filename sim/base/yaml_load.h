// SPDX-License-Identifier: Apache-2.0
// YAML text to nodes, within limits; only yaml.cpp includes it (and with it yaml-cpp).
#pragma once

#include <yaml-cpp/yaml.h>

#include <string>

namespace moesim {

/// Values that the aliases of one document may stand for, each counted with all inside it.
inline constexpr int max_aliased_values = 100'000;

/// Values of a document: each takes half a kilobyte, though its text may have only two bytes.
inline constexpr int max_values = 4'000'000;

/// The one document of a text, a null node when there is none. Throws Error with file, line and
/// column for what is not UTF-8 or not YAML, for a second document or text after the first, for
/// an alias of a value inside that value, for more than max_aliased_values or max_values, and
/// for lists and mappings nested deeper than max_nesting, aliases followed.
YAML::Node load_yaml(const std::string& text, const std::string& file);

/// The same, but equal texts share one parse as long as all kept texts have at most 1 MiB. Nodes
/// must not be changed, only copied.
/// Sweeps read the same files for every scenario, which takes longer than to simulate a small one.
YAML::Node load_shared_yaml(const std::string& text, const std::string& file);

}  // namespace moesim
