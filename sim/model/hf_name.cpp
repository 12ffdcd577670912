// SPDX-License-Identifier: Apache-2.0
#include "sim/model/hf_name.h"

#include <filesystem>
#include <string_view>

namespace moesim {

std::string hf_harmless(std::string name) {
  for (char& c : name) {
    const bool plain = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
    if (!plain && std::string_view("-_.+").find(c) == std::string_view::npos) c = '_';
  }
  return name.empty() ? "model" : name;
}

std::string hf_model_name(const HfKeys& keys, const std::string& path, const std::string& type) {
  const std::filesystem::path file(path);
  if (file.stem() != "config" && file.stem() != "params") return hf_harmless(file.stem().string());
  const std::string given = std::filesystem::path(keys.text({"_name_or_path"})).filename().string();
  const std::string folder =
      file.has_parent_path() ? file.parent_path().filename().string() : std::string();
  if (!given.empty()) return hf_harmless(given);
  return hf_harmless(folder.empty() || folder.starts_with(".") ? type : folder);
}

}  // namespace moesim
