// SPDX-License-Identifier: Apache-2.0
// Finds shipped data: `h100-rail` -> .../topologies/h100-rail.yaml.
#pragma once

#include <string>
#include <vector>

namespace moesim {

/// The path of a data file: `name` itself when it is a path (contains '/' or ends in .yaml), else
/// <root>/<kind>/<name>.yaml, where kind is "topologies", "models/moe", "models/gpu",
/// "models/system", "models/collectives" and root is $MOESIM_DATA, the source tree or the installed
/// share folder. Throws Error with a suggestion when there is none.
std::string data_file(const std::string& kind, const std::string& name);

/// The path of a file or folder among the shipped data, empty when there is none.
std::string shipped(const std::string& relative);

/// The names that data_file(kind, name) knows, sorted.
std::vector<std::string> data_names(const std::string& kind);

}  // namespace moesim
