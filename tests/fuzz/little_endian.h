// SPDX-License-Identifier: Apache-2.0
// Numbers of archives' headers.
#pragma once

#include <cstdint>
#include <string>

namespace moesim::fuzz {

/// Appends the lowest bytes of a number, the lowest first.
inline void add_number(std::string& out, int bytes, std::uint64_t value) {
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> 8 * i & 0xff);
}

}  // namespace moesim::fuzz
