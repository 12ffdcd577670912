// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/scratch_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <stdexcept>

#include "sim/base/temporary_folder.h"

namespace moesim::fuzz {

const std::string& scratch_folder() {
  static const TemporaryFolder folder;
  return folder.path();
}

std::string scratch_file(const std::string& name, std::string_view bytes) {
  const std::string path = scratch_folder() + "/" + name;
  const int flags = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC;
  int file = ::open(path.c_str(), flags, 0666);
  if (file < 0) {
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    file = ::open(path.c_str(), flags, 0666);
  }
  const bool written =
      file >= 0 && ::write(file, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size());
  if (file >= 0) ::close(file);
  if (!written) throw std::runtime_error("no scratch file " + path);
  return path;
}

}  // namespace moesim::fuzz
