// SPDX-License-Identifier: Apache-2.0
#include "sim/base/database_size.h"

#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>

#include "sim/base/error.h"

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

}  // namespace moesim
