// SPDX-License-Identifier: Apache-2.0
#include "sim/flags/output_file.h"

#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/base/file_claims.h"
#include "sim/base/files.h"

namespace moesim {

std::FILE* stream_beside(const std::string& path) {
  return path == standard_output ? stderr : stdout;
}

void OutputFile::take(const std::string& path) {
  path_ = is_standard_output(path) ? standard_output : path;
  printed() ? claim_standard_output() : claim_output(path);
}

Flag OutputFile::add_to(CommandLine& command, const std::string& names, const std::string& what) {
  const std::string name = names.substr(names.find("--"));
  const auto keep = [this, name](const std::string& path) {
    if (path.empty()) throw Error(fmt::format("'{}' needs the name of a file", name));
    take(path);
  };
  return command.add_option(names, keep, what + "; - prints it, and the rest to standard error");
}

bool OutputFile::printed() const { return path_ == standard_output; }

void OutputFile::write(const std::string& text) const {
  if (!path_) return;
  if (printed()) {
    fmt::print("{}", text);
  } else {
    write_file(*path_, text);
  }
}

}  // namespace moesim
