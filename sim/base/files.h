// SPDX-License-Identifier: Apache-2.0
// Reads and writes whole files. Other programs never see a half-written file.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace moesim {

/// A file that is to be.
struct NamedText {
  std::string path, text;
};

/// Writes all of the files, or none of them if one cannot be written: throws Error.
void write_files(const std::vector<NamedText>& files);

/// Whether a file or folder of this name exists. False if no file can have the name, because it is
/// too long, and for a link that leads to itself.
bool is_there(const std::string& path);
bool is_folder(const std::string& path);
/// Whether it is a file that can be read to its end, or a link to one.
bool is_regular_file(const std::string& path);

/// Returns all bytes of a file. Throws Error if it cannot be read.
std::string read_bytes(const std::string& path);
/// The same of a text, without the mark that it may begin with. Throws Error for UTF-16, too.
std::string read_file(const std::string& path);
/// The same, or all of standard input if the path is "-".
std::string read_file_or_input(const std::string& path);

/// Writes to a temporary file next to `path`, then renames that file. Throws Error if either fails.
void write_file(const std::string& path, std::string_view content);

/// Throws Error if `path` cannot be written. Call it before a long run, which would otherwise
/// lose its result.
void check_writable(const std::string& path);

/// Returns the XXH3 hash (128 bits) of some bytes in hex. Reports identify inputs by it.
std::string hash_of(std::string_view content);

/// A file that a result was computed from.
struct InputFile {
  std::string name;
  /// Hash of the content, overrides (--set) included.
  std::string hash;
};

}  // namespace moesim
