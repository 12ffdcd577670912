// SPDX-License-Identifier: Apache-2.0
#include "sim/base/lower_case.h"

#include <cctype>

namespace moesim {

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lower;
}

std::string letters_and_digits(std::string_view text) {
  std::string plain;
  for (const char c : lower_case(text)) {
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) plain += c;
  }
  return plain;
}

}  // namespace moesim
