// SPDX-License-Identifier: Apache-2.0
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

}  // namespace moesim
