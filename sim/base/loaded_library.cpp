// SPDX-License-Identifier: Apache-2.0
#include "sim/base/loaded_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <filesystem>
#include <system_error>

namespace fs = std::filesystem;

namespace moesim {
namespace {

fs::path library_file(const fs::path& built) {
  std::error_code unknown;
  const fs::path folder = fs::read_symlink("/proc/self/exe", unknown).parent_path();
  const fs::path below = folder.lexically_relative(MOESIM_BUILD_FOLDER);
  if (!below.empty() && *below.begin() != "..") return fs::path(MOESIM_BUILD_FOLDER) / built;
  return (folder / ".." / MOESIM_LIBRARIES / built.filename()).lexically_normal();
}

}  // namespace

LoadedFunction load_function(const std::string& built, const char* name) {
  const std::string file = library_file(built).string();
  void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return {nullptr, dlerror()};
  void* const found = dlsym(library, name);
  if (found == nullptr) return {nullptr, fmt::format("{} is not of this moesim", file)};
  return {found};
}

}  // namespace moesim
