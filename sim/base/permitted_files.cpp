// SPDX-License-Identifier: Apache-2.0
#include "sim/base/permitted_files.h"

#include <filesystem>
#include <optional>
#include <stdexcept>
#include <utility>

#include "sim/base/program_folder.h"

namespace moesim {
namespace {

namespace fs = std::filesystem;

std::optional<std::vector<fs::path>>& permitted() {
  static std::optional<std::vector<fs::path>> paths;
  return paths;
}

/// What was read while it was noted.
struct ReadFiles {
  bool noted = false;
  std::vector<std::string> paths = {};
};

ReadFiles& read_files() {
  static ReadFiles files;
  return files;
}

}  // namespace

void keep_read_files_permitted() { read_files().noted = true; }

void permit_only(const std::vector<std::string>& paths) {
  if (permitted()) throw std::logic_error("files are limited once");
  std::vector<std::string> all = std::move(read_files().paths);
  read_files() = {};
  all.insert(all.end(), paths.begin(), paths.end());
  std::vector<fs::path> found;
  for (const std::string& path : all) {
    std::error_code missing;
    fs::path real = fs::canonical(path, missing);
    if (!missing) found.push_back(std::move(real));
  }
  permitted() = std::move(found);
}

bool is_permitted(const std::string& path) {
  if (!permitted()) return true;
  std::error_code impossible;
  const fs::path real = fs::weakly_canonical(fs::absolute(path, impossible), impossible);
  if (impossible) return false;
  for (const fs::path& folder : *permitted()) {
    if (lies_in(real, folder)) return true;
  }
  return false;
}

bool may_read(const std::string& path) {
  if (read_files().noted) read_files().paths.push_back(path);
  return is_permitted(path);
}

}  // namespace moesim
