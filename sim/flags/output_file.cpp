// SPDX-License-Identifier: Apache-2.0
#include "sim/flags/output_file.h"

#include <fmt/format.h>

#include "sim/base/files.h"

namespace moesim {
namespace {

const std::string standard_output = "-";

}  // namespace

void write_output(const std::string& path, const std::string& text) {
  if (path == standard_output) {
    fmt::print("{}", text);
  } else {
    write_file(path, text);
  }
}

std::FILE* stream_beside(const std::string& path) {
  return path == standard_output ? stderr : stdout;
}

Flag OutputFile::add_to(CommandLine& command, const std::string& names, const std::string& what) {
  const auto keep = [this](const std::string& path) {
    if (path != standard_output) check_writable(path);
    path_ = path;
  };
  return command.add_option(names, keep, what + "; - prints it, and the rest to standard error");
}

void OutputFile::write(const std::string& text) const {
  if (path_) write_output(*path_, text);
}

}  // namespace moesim
