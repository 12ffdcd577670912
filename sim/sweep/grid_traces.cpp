// SPDX-License-Identifier: Apache-2.0
#include "sim/sweep/grid_traces.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>

#include "sim/base/files.h"

namespace moesim {

std::string GridTraces::path_of(const SynthOptions& options) const {
  namespace fs = std::filesystem;
  const std::string path = folder_ + "/" + drawn_name(options);
  if (is_there(path)) return path;
  fs::create_directories(folder_);
  const std::string mine = fmt::format("{}.{}", path, ::getpid());
  write_synthetic_trace(mine, options);
  std::error_code taken;  // another process was faster, with the same bytes
  fs::rename(mine, path, taken);
  if (taken) fs::remove_all(mine);
  return path;
}

}  // namespace moesim
