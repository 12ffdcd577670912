// SPDX-License-Identifier: Apache-2.0
#include "realhw/cuda/shared_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>

namespace moesim {
namespace {

namespace fs = std::filesystem;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

void add_home(std::vector<std::string>& paths, const fs::path& home, const std::string& file) {
  if (home.empty()) return;
  for (const char* folder : {"lib64", "lib"}) paths.push_back(home / folder / file);
}

/// <environment>/lib/python3.*/site-packages/nvidia/<package>/lib
void add_python(std::vector<std::string>& paths, const fs::path& environment,
                const SharedLibrary::Names& names) {
  std::error_code none;
  if (environment.empty() || !fs::is_directory(environment / "lib", none)) return;
  std::vector<std::string> found;
  for (const auto& entry : fs::directory_iterator(environment / "lib", none)) {
    if (!entry.path().filename().string().starts_with("python")) continue;
    found.push_back(entry.path() / "site-packages" / "nvidia" / names.package / "lib" / names.file);
  }
  std::sort(found.begin(), found.end());
  paths.insert(paths.end(), found.begin(), found.end());
}

std::vector<std::string> places(const SharedLibrary::Names& names) {
  if (const std::string only = environment(names.variable.c_str()); !only.empty()) return {only};
  std::vector<std::string> paths;
  add_home(paths, environment(names.home.c_str()), names.file);
  add_home(paths, environment("CUDA_HOME"), names.file);
  paths.push_back(names.file);
  for (const char* python : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    add_python(paths, environment(python), names);
  }
  add_home(paths, "/usr/local/cuda", names.file);
  return paths;
}

}  // namespace

SharedLibrary::SharedLibrary(const Names& names) {
  const std::vector<std::string> paths = places(names);
  std::error_code missing;
  std::string reason;  // of the first place that has the file, or of the loader
  for (const std::string& path : paths) {
    const bool search = path.find('/') == std::string::npos;
    if (!search && !fs::exists(path, missing)) continue;
    handle_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle_ != nullptr) {
      path_ = path;
      return;
    }
    const char* message = dlerror();
    if (reason.empty() && !search && message != nullptr) reason = fmt::format(": {}", message);
  }
  std::string list;
  for (const std::string& path : paths) list += (list.empty() ? "" : ", ") + path;
  throw std::runtime_error(fmt::format("{} cannot be loaded{}; looked at {}; ${} names it",
                                       names.file, reason, list, names.variable));
}

SharedLibrary::~SharedLibrary() {
  if (handle_ != nullptr) dlclose(handle_);
}

void* SharedLibrary::symbol(const char* name, bool required) const {
  void* found = dlsym(handle_, name);
  if (found == nullptr && required) {
    throw std::runtime_error(fmt::format("{} has no {}: it is too old", path_, name));
  }
  return found;
}

}  // namespace moesim
