// SPDX-License-Identifier: Apache-2.0
#include "sim/base/regular_file.h"

#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>

#include "sim/base/error.h"
#include "sim/base/permitted_files.h"

namespace moesim {

void check_database_size(const std::string& path) {
  std::array<unsigned char, 100> header{};
  std::ifstream(path, std::ios::binary)
      .read(reinterpret_cast<char*>(header.data()), std::ssize(header));
  const auto number = [&](std::size_t at, int bytes) {
    std::uint64_t value = 0;
    for (int i = 0; i < bytes; ++i) value = value << 8U | header[at + static_cast<std::size_t>(i)];
    return value;
  };
  const std::uint64_t page = number(16, 2) == 1 ? 65536 : number(16, 2);
  const bool counted = number(24, 4) == number(92, 4);  // else the count of pages is out of date
  if (header[0] == 'S' && counted && number(28, 4) * page > std::filesystem::file_size(path)) {
    throw error_in(path, "is cut short: it lacks pages that it says it has", "copy it again");
  }
}

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
