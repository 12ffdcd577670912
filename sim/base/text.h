// SPDX-License-Identifier: Apache-2.0
// Text of files as it comes: whether it is text, and where in it something is.
#pragma once

#include <string>
#include <string_view>

#include "sim/base/error.h"

namespace moesim {

/// Lists and mappings that may be inside each other in a YAML or JSON file. Ours need less than
/// ten; readers recurse, so that a file of brackets must not get to them.
inline constexpr int max_nesting = 100;

/// An error at a byte of a text, with its line, column and source line. `first_line` is the number
/// of the text's first line in the file; `offset` may be the text's size.
Error error_at(const std::string& file, std::string_view text, std::size_t offset,
               std::string message, std::string hint = "", int first_line = 1);

/// The text with control characters, but for tab and newline, and marks that change the direction
/// of text escaped, as "\\x1b": names come from files, and must not control a terminal.
std::string printable(std::string_view text);

/// Whether all of it is UTF-8 without NUL.
bool is_text(std::string_view text);

/// Whether it begins with UTF-16's byte-order mark, as Windows writes it.
bool is_utf16(std::string_view text);

/// The text without UTF-8's byte-order mark at its beginning, as Windows writes it. Throws Error
/// for UTF-16.
std::string_view without_mark(std::string_view text, const std::string& file);

/// Throws Error for UTF-16, and for what gzip, bzip2, zstd or xz has packed, by its first bytes.
void check_unpacked(std::string_view start, const std::string& file);

/// Throws Error at the first byte that is not UTF-8, or is NUL.
void check_text(std::string_view text, const std::string& file, int first_line = 1);

}  // namespace moesim
