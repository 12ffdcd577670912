// SPDX-License-Identifier: Apache-2.0
#include "sim/base/read_number.h"

#include <cerrno>
#include <cstdlib>
#include <string>
#include <string_view>
#include <version>

namespace moesim {

#if defined(__cpp_lib_to_chars)

std::from_chars_result read_number(const char* first, const char* last, double& value) {
  return std::from_chars(first, last, value);
}

#else

/// By std::strtod, in whose locale nothing is ever changed, on what it may read: it would also take
/// blanks, a plus and hexadecimal digits.
std::from_chars_result read_number(const char* first, const char* last, double& value) {
  const std::string text(first, last);
  const std::size_t digits = text.starts_with('-') ? 1 : 0;
  const bool begins = text.size() > digits &&
                      std::string_view(".0123456789iInN").find(text[digits]) != std::string::npos;
  if (!begins) return {first, std::errc::invalid_argument};
  if (text[digits] == '0' && text.size() > digits + 1 && (text[digits + 1] | 32) == 'x') {
    value = digits == 1 ? -0.0 : 0.0;
    return {first + digits + 1, std::errc()};
  }
  char* end = nullptr;
  errno = 0;
  const double read = std::strtod(text.c_str(), &end);
  const char* rest = first + (end - text.c_str());
  if (end == text.c_str()) return {first, std::errc::invalid_argument};
  if (errno == ERANGE) return {rest, std::errc::result_out_of_range};
  value = read;
  return {rest, std::errc()};
}

#endif

}  // namespace moesim
