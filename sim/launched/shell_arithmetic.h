// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace moesim {

/// What $((...)) makes of whole numbers with + - * / % and parentheses; nothing if it holds more,
/// or leaves the range.
std::optional<std::int64_t> shell_arithmetic(std::string_view text);

}  // namespace moesim
