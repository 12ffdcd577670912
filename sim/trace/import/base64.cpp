// SPDX-License-Identifier: Apache-2.0
#include "sim/trace/import/base64.h"

#include <fmt/format.h>

#include <array>
#include <cstdint>

#include "sim/base/error.h"

namespace moesim {
namespace {

constexpr std::uint8_t no_digit = 64;

constexpr std::array<std::uint8_t, 256> base64_digits = [] {
  std::array<std::uint8_t, 256> table{};
  table.fill(no_digit);
  std::uint8_t value = 0;
  for (const char c :
       std::string_view("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")) {
    table[static_cast<unsigned char>(c)] = value++;
  }
  return table;
}();

}  // namespace

std::vector<std::byte> from_base64(std::string_view text, const std::string& where) {
  if (text.size() % 4 != 0) throw error_in(where, "holds base64 text that is cut short");
  std::size_t padding = 0;
  while (padding < 2 && text.ends_with('=')) text.remove_suffix(1), ++padding;
  std::vector<std::byte> bytes;
  bytes.reserve(text.size() / 4 * 3 + 3);
  std::uint32_t bits = 0;
  int held = 0;
  for (const char c : text) {
    const std::uint8_t digit = base64_digits[static_cast<unsigned char>(c)];
    if (digit == no_digit) throw error_in(where, "holds text that is not base64");
    bits = bits << 6 | digit;
    held += 6;
    if (held < 8) continue;
    held -= 8;
    bytes.push_back(static_cast<std::byte>(bits >> held & 0xff));
  }
  return bytes;
}

}  // namespace moesim
