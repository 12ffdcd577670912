// SPDX-License-Identifier: Apache-2.0
// A document that a command writes in addition to what it prints; "-" is standard output.
#pragma once

#include <cstdio>
#include <optional>
#include <string>

#include "sim/flags/command_line.h"

namespace moesim {

/// Where to print what people read: standard output, or standard error if a document takes that.
std::FILE* stream_beside(const std::string& path);

/// A document that goes to a file, which is written whole or not at all, or to standard output: by
/// the name "-", or by a name of the file or device that standard output is.
class OutputFile {
 public:
  OutputFile() = default;
  /// Goes to `path` if the command line does not say where.
  explicit OutputFile(const std::string& path) : path_(path) {}

  /// Adds the option; a path that cannot be written, that this command reads or that another output
  /// has is an Error as soon as it is read. The command must not outlive this.
  Flag add_to(CommandLine& command, const std::string& names, const std::string& what);
  /// The same without an option.
  void take(const std::string& path);

  bool asked() const { return path_.has_value(); }
  bool printed() const;
  /// The file's path, or "-".
  std::string path() const { return path_.value_or(""); }
  /// Nothing when it was not asked for.
  void write(const std::string& text) const;
  std::FILE* beside() const { return stream_beside(path()); }

 private:
  std::optional<std::string> path_;
};

}  // namespace moesim
