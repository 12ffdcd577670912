// SPDX-License-Identifier: Apache-2.0
#include "sim/base/temporary_folder.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "sim/base/error.h"
#include "sim/base/file_in_parts.h"

namespace moesim {

namespace fs = std::filesystem;

TemporaryFolder::TemporaryFolder(const std::string& path)
    : path_(fresh_name_beside(path.empty() ? (fs::temp_directory_path() / "moesim").string()
                                           : path)) {
  if (::mkdir(path_.c_str(), 0700) == 0) return;
  throw error_in(path_, fmt::format("cannot be made: {}", std::strerror(errno)));
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code gone;
  fs::remove_all(path_, gone);
}

}  // namespace moesim
