// SPDX-License-Identifier: Apache-2.0
// std::from_chars for numbers with a point, which the C++ library of LLVM has from 20 on.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace moesim {

/// The whole number that a text is, all of it and in the range of the type.
template <class Number>
std::optional<Number> parse_integer(std::string_view text) {
  Number number = 0;
  const char* const end = text.data() + text.size();
  const auto [at, failed] = std::from_chars(text.data(), end, number);
  if (failed != std::errc() || at != end) return std::nullopt;
  return number;
}

/// Reads as many characters as make a decimal number into `value`, as std::from_chars does.
std::from_chars_result read_number(const char* first, const char* last, double& value);
std::from_chars_result read_number(const char* first, const char* last, float& value);

}  // namespace moesim
