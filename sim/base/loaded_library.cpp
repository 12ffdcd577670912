// SPDX-License-Identifier: Apache-2.0
#include "sim/base/loaded_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <filesystem>

#include "sim/base/program_folder.h"

namespace fs = std::filesystem;

namespace moesim {
namespace {

fs::path library_file(const fs::path& built) {
  const fs::path folder = program_folder();
  if (lies_in(folder, MOESIM_BUILD_FOLDER)) return fs::path(MOESIM_BUILD_FOLDER) / built;
  return (folder / ".." / MOESIM_LIBRARIES / built.filename()).lexically_normal();
}

}  // namespace

LoadedFunction load_function(const std::string& built, const char* name) {
  if (program_folder().empty()) return {nullptr, "the system does not say where moesim is"};
  const std::string file = library_file(built).string();
  void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return {nullptr, dlerror()};
  void* const found = dlsym(library, name);
  if (found == nullptr) return {nullptr, fmt::format("{} is not of this moesim", file)};
  return {found};
}

}  // namespace moesim
