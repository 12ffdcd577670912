// SPDX-License-Identifier: Apache-2.0
// Numbers by C's functions, in whose locale nothing is ever changed: where the library's
// std::from_chars() knows no floating point, and in tests.
#pragma once

#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <string>
#include <string_view>

namespace moesim {

inline void convert_by_c(const char* text, char*& end, double& value) {
  value = std::strtod(text, &end);
}
inline void convert_by_c(const char* text, char*& end, float& value) {
  value = std::strtof(text, &end);
}

/// Only on what std::from_chars() reads: they would also take blanks, a plus and hexadecimal
/// digits.
template <class T>
std::from_chars_result read_number_by_c(const char* first, const char* last, T& value) {
  const std::string text(first, last);
  const std::size_t digits = text.starts_with('-') ? 1 : 0;
  const bool begins = text.size() > digits &&
                      std::string_view(".0123456789iInN").find(text[digits]) != std::string::npos;
  if (!begins) return {first, std::errc::invalid_argument};
  if (text[digits] == '0' && text.size() > digits + 1 && (text[digits + 1] | 32) == 'x') {
    value = digits == 1 ? -T{} : T{};
    return {first + digits + 1, std::errc()};
  }
  char* end = nullptr;
  T converted{};
  errno = 0;
  convert_by_c(text.c_str(), end, converted);
  const char* rest = first + (end - text.c_str());
  if (end == text.c_str()) return {first, std::errc::invalid_argument};
  if (errno == ERANGE && (converted == 0 || std::isinf(converted))) {
    return {rest, std::errc::result_out_of_range};
  }
  value = converted;
  return {rest, std::errc()};
}

}  // namespace moesim
