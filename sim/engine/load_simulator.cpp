// SPDX-License-Identifier: Apache-2.0
// The library that holds SimGrid is where moesim was installed or built.
#include <dlfcn.h>
#include <fmt/format.h>

#include <filesystem>
#include <stdexcept>
#include <string>

#include "sim/engine/simgrid_library.h"
#include "sim/engine/simulator.h"

namespace fs = std::filesystem;

namespace moesim {
namespace {

using MakeSimulator = Simulator*(double precision);

/// In the build folder for programs that are in it, else where it is installed.
fs::path library_file() {
  const fs::path folder = fs::read_symlink("/proc/self/exe").parent_path();
  const fs::path below = folder.lexically_relative(MOESIM_BUILD_FOLDER);
  if (!below.empty() && *below.begin() != "..")
    return fs::path(MOESIM_BUILD_FOLDER) / built_library;
  const fs::path installed = folder / ".." / MOESIM_LIBRARIES / fs::path(built_library).filename();
  return installed.lexically_normal();
}

MakeSimulator* load() {
  const std::string file = library_file().string();
  // Never closed: SimGrid's globals last as long as the process.
  void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    throw std::runtime_error(fmt::format("cannot load SimGrid: {}", dlerror()));
  }
  void* const found = dlsym(library, "moesim_make_simulator");
  if (found == nullptr) {
    throw std::runtime_error(fmt::format("{} is not of this moesim: {}", file, dlerror()));
  }
  return reinterpret_cast<MakeSimulator*>(found);
}

MakeSimulator& maker() {
  static MakeSimulator* const make = load();
  return *make;
}

}  // namespace

void load_simgrid() { maker(); }

std::unique_ptr<Simulator> make_simulator(Seconds precision) {
  return std::unique_ptr<Simulator>(maker()(precision.value));
}

}  // namespace moesim
