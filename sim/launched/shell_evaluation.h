// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace moesim {

/// What `[ ... ]` or `[[ ... ]]` of expanded words says; nothing if a word is not known, or if it
/// is of another form than `-z A`, `-n A`, `A = B`, `A == B`, `A != B`, `A -eq B` and the like.
std::optional<bool> shell_test(std::vector<std::string> words);

/// What $((...)) makes of whole numbers with + - * / % and parentheses; nothing if it holds more,
/// or leaves the range.
std::optional<std::int64_t> shell_arithmetic(std::string_view text);

}  // namespace moesim
