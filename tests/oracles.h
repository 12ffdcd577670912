// SPDX-License-Identifier: Apache-2.0
// Vectors of planners: all files of a folder, which MOESIM_ORACLES names.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

namespace moesim {

/// MOESIM_ORACLES if it is set, else the reference material.
inline std::filesystem::path oracle_folder() {
  const char* given = std::getenv("MOESIM_ORACLES");
  return given != nullptr && *given != '\0' ? given : MOESIM_SHARED "/oracles";
}

/// The vectors of a schema ("moesim.oracle.eplb/1"), by path, wherever they are in the folder.
inline std::map<std::string, nlohmann::json> oracles_of(const std::string& schema) {
  std::map<std::string, nlohmann::json> vectors;
  std::error_code absent;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(oracle_folder(), absent)) {
    if (entry.path().extension() != ".json") continue;
    std::ifstream in(entry.path());
    auto vector = nlohmann::json::parse(in);
    if (vector.is_object() && vector.value("schema", "") == schema) {
      vectors[entry.path().string()] = std::move(vector);
    }
  }
  return vectors;
}

}  // namespace moesim
