// SPDX-License-Identifier: Apache-2.0
#include "sim/base/files.h"

#include <fmt/format.h>
#include <unistd.h>
#include <xxhash.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "sim/base/error.h"
#include "sim/base/file_in_parts.h"
#include "sim/base/regular_file.h"

namespace moesim {

bool is_there(const std::string& path) {
  std::error_code impossible;
  return std::filesystem::exists(path, impossible);
}

bool is_folder(const std::string& path) {
  std::error_code impossible;
  return std::filesystem::is_directory(path, impossible);
}

std::string read_file(const std::string& path) {
  check_regular_file(path);
  std::ifstream in(path, std::ios::binary);
  if (!in) throw error_in(path, fmt::format("cannot be read: {}", std::strerror(errno)));
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

void write_file(const std::string& path, std::string_view content) {
  FileInParts file(path);
  file.write(content);
  file.finish();
}

void check_writable(const std::string& path) {
  if (path.empty()) throw Error("'--json' needs the name of a file");
  const std::filesystem::path parent = std::filesystem::absolute(path).parent_path();
  if (is_folder(path)) throw error_in(path, "is a folder, not a file");
  if (is_there(path) && !std::filesystem::is_regular_file(path)) {
    throw error_in(path, "is not a regular file, which alone can be replaced in one go");
  }
  if (!std::filesystem::is_directory(parent)) {
    throw error_in(path, fmt::format("there is no folder '{}'", parent.string()));
  }
  if (::access(parent.c_str(), W_OK) != 0) {
    throw error_in(path, fmt::format("cannot be written: {}", std::strerror(errno)));
  }
}

std::string hash_of(std::string_view content) {
  const XXH128_hash_t h = XXH3_128bits(content.data(), content.size());
  return fmt::format("{:016x}{:016x}", h.high64, h.low64);
}

}  // namespace moesim
