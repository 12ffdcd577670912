// SPDX-License-Identifier: Apache-2.0
// Bytes as text: base64 of the standard alphabet with padding, and base85.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace moesim {

/// Throws Error naming `where` for what is not base64.
std::vector<std::byte> from_base64(std::string_view text, const std::string& where);

/// The same of Python's base64.b85encode.
std::vector<std::byte> from_base85(std::string_view text, const std::string& where);

}  // namespace moesim
