// SPDX-License-Identifier: Apache-2.0
// Text in gzip's form, in memory.
#pragma once

#include <string>
#include <string_view>

namespace moesim {

/// The same text gives the same bytes. Throws std::runtime_error when memory is short.
std::string gzipped(std::string_view text);
/// The text of a gzip file. Throws Error when it is none, with that hint, or cut short or damaged.
std::string read_gzip(const std::string& path, const std::string& hint = "");

}  // namespace moesim
