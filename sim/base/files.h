// SPDX-License-Identifier: Apache-2.0
// Whole files, read and written so that nothing is ever half there.
#pragma once

#include <string>
#include <string_view>

namespace moesim {

/// Whether a file or folder of this name is there; not if no file can have the name (too long).
bool is_there(const std::string& path);
bool is_folder(const std::string& path);

/// The content of a file. Throws Error when it cannot be read.
std::string read_file(const std::string& path);

/// Writes to a temporary name next to `path`, then renames. Throws Error when that fails.
void write_file(const std::string& path, std::string_view content);

/// Refuses a file that could not be written after a long run: throws Error.
void check_writable(const std::string& path);

/// XXH3 (128 bits) of some bytes, in hex: the identity of an input in reports.
std::string hash_of(std::string_view content);

/// A file that went into a result.
struct InputFile {
  std::string name;
  std::string hash;  // of the file with its overrides
};

}  // namespace moesim
