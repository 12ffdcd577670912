// SPDX-License-Identifier: Apache-2.0
#include "sim/base/data_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "sim/base/error.h"

namespace fs = std::filesystem;

namespace moesim {
namespace {

std::string data_root() {
  if (const char* root = std::getenv("MOESIM_DATA"); root != nullptr && *root != '\0') return root;
  if (fs::is_directory(MOESIM_SOURCE_DATA)) return MOESIM_SOURCE_DATA;
  return MOESIM_INSTALLED_DATA;
}

bool is_path(const std::string& name) {
  return name.find('/') != std::string::npos || name.ends_with(".yaml") || name.ends_with(".yml");
}

}  // namespace

std::vector<std::string> data_names(const std::string& kind) {
  std::vector<std::string> names;
  const fs::path folder = fs::path(data_root()) / kind;
  if (!fs::is_directory(folder)) return names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".yaml" && entry.path().stem().extension().empty()) {
      names.push_back(entry.path().stem().string());
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string shipped(const std::string& relative) {
  const fs::path path = fs::path(data_root()) / relative;
  return fs::exists(path) ? path.string() : "";
}

std::string data_file(const std::string& kind, const std::string& name) {
  if (is_path(name)) {
    if (!fs::exists(name)) throw error_in(name, "no such file");
    return name;
  }
  const fs::path path = fs::path(data_root()) / kind / (name + ".yaml");
  if (fs::exists(path)) return path.string();
  throw Error(fmt::format("no '{}' in {}", name, kind), did_you_mean(name, data_names(kind)));
}

}  // namespace moesim
