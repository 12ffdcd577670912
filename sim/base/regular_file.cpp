// SPDX-License-Identifier: Apache-2.0
#include "sim/base/regular_file.h"

#include <filesystem>

#include "sim/base/error.h"
#include "sim/base/permitted_files.h"

namespace moesim {

Error no_input_here() {
  return error_in("-", "standard input is not read here", "give the name of a file");
}

void check_regular_file(const std::string& path) {
  if (!may_read(path)) {
    throw error_in(path, "no such file", "files outside the data of moesim have to be given to it");
  }
  std::error_code impossible;
  if (path == "-" && !std::filesystem::exists(path, impossible)) throw no_input_here();
  const auto type = std::filesystem::status(path, impossible).type();
  switch (type) {
    case std::filesystem::file_type::directory:
      throw error_in(path, "is a folder, not a file");
    case std::filesystem::file_type::fifo:
      throw error_in(path, "is a FIFO, not a regular file", "write it to a file first");
    case std::filesystem::file_type::character:
    case std::filesystem::file_type::block:
      throw error_in(path, "is a device, not a regular file");
    case std::filesystem::file_type::socket:
      throw error_in(path, "is a socket, not a regular file");
    default:
      return;
  }
}

}  // namespace moesim
