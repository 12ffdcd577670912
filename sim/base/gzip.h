// SPDX-License-Identifier: Apache-2.0
// Text in gzip's form.
#pragma once

#include <string>
#include <string_view>

namespace moesim {

/// The same text gives the same bytes. Throws std::runtime_error when memory is short.
std::string gzipped(std::string_view text);
/// The text of a gzip file. Throws Error when it is none, with that hint, or cut short or damaged,
/// or would fill the memory: more than 32 MiB and 200 times the file.
std::string read_gzip(const std::string& path, const std::string& hint = "");
/// The same for a file that need not be packed.
std::string read_text_or_gzip(const std::string& path);

}  // namespace moesim
