// SPDX-License-Identifier: Apache-2.0
// A document that a command writes beside what it prints; "-" is standard output.
#pragma once

#include <cstdio>
#include <optional>
#include <string>

#include "sim/flags/command_line.h"

namespace moesim {

/// Writes the whole file or nothing, or prints it where the path is "-".
void write_output(const std::string& path, const std::string& text);

/// Where to print what people read: standard output, or standard error where a document takes that.
std::FILE* stream_beside(const std::string& path);

class OutputFile {
 public:
  /// Adds the option; a path that cannot be written is an Error as soon as it is read. The command
  /// must not outlive this.
  Flag add_to(CommandLine& command, const std::string& names, const std::string& what);

  bool asked() const { return path_.has_value(); }
  /// Nothing when it was not asked for.
  void write(const std::string& text) const;
  std::FILE* beside() const { return stream_beside(path_.value_or("")); }

 private:
  std::optional<std::string> path_;
};

}  // namespace moesim
