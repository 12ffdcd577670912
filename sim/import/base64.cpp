// SPDX-License-Identifier: Apache-2.0
#include "sim/import/base64.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "sim/base/error.h"

namespace moesim {
namespace {

/// No group of four digits has this bit.
constexpr std::uint32_t no_digit = 1U << 24;

/// For each place in a group of four: the bits of a character, first byte lowest, as a
/// little-endian machine stores them.
constexpr std::array<std::array<std::uint32_t, 256>, 4> base64_digits = [] {
  std::array<std::array<std::uint32_t, 256>, 4> tables{};
  for (auto& table : tables) table.fill(no_digit);
  std::uint32_t value = 0;
  for (const char c :
       std::string_view("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")) {
    for (unsigned place = 0; place < 4; ++place) {
      const std::uint32_t bits = value << (18 - 6 * place);  // first byte highest
      tables[place][static_cast<unsigned char>(c)] =
          bits >> 16 | (bits & 0xff00) | (bits & 0xff) << 16;
    }
    ++value;
  }
  return tables;
}();

std::uint32_t group_of(const char* text) {
  std::uint32_t bits = 0;
  for (std::size_t place = 0; place < 4; ++place) {
    bits |= base64_digits[place][static_cast<unsigned char>(text[place])];
  }
  return bits;
}

}  // namespace

std::vector<std::byte> from_base64(std::string_view text, const std::string& where) {
  constexpr std::string_view blanks = " \t\r\n";
  std::string joined;
  if (text.find_first_of(blanks) != text.npos) {  // lines, as MIME and base64(1) write
    joined = text;
    std::erase_if(joined, [&](char c) { return blanks.find(c) != blanks.npos; });
    text = joined;
  }
  if (text.size() % 4 != 0) throw error_in(where, "holds base64 text that is cut short");
  std::size_t padding = 0;
  while (padding < 2 && text.ends_with('=')) text.remove_suffix(1), ++padding;
  const std::size_t groups = text.size() / 4;
  std::vector<std::byte> bytes(groups * 3 + 4);  // four bytes are stored, three of them stay
  std::uint32_t all = 0;
  for (std::size_t i = 0; i < groups; ++i) {
    const std::uint32_t bits = group_of(text.data() + i * 4);
    all |= bits;
    std::memcpy(bytes.data() + i * 3, &bits, 4);
  }
  if (padding > 0) {
    std::array<char, 4> last{'A', 'A', 'A', 'A'};
    std::ranges::copy(text.substr(groups * 4), last.begin());
    const std::uint32_t bits = group_of(last.data());
    all |= bits;
    std::memcpy(bytes.data() + groups * 3, &bits, 4);
  }
  if ((all & no_digit) != 0) throw error_in(where, "holds text that is not base64");
  bytes.resize(groups * 3 + (padding > 0 ? 3 - padding : 0));
  return bytes;
}

std::vector<std::byte> from_base85(std::string_view text, const std::string& where) {
  constexpr std::string_view digits =
      "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~";
  std::vector<std::byte> bytes;
  for (std::size_t from = 0; from < text.size(); from += 5) {
    const std::string_view group = text.substr(from, 5);
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < 5; ++i) {
      const std::size_t digit = i < group.size() ? digits.find(group[i]) : 84;
      if (digit == std::string_view::npos) throw error_in(where, "holds text that is not base85");
      value = value * 85 + digit;
    }
    if (value >> 32 != 0) throw error_in(where, "holds text that is not base85");
    for (std::size_t i = 0; i + 1 < group.size(); ++i) {
      bytes.push_back(static_cast<std::byte>(value >> (24 - 8 * i) & 0xff));
    }
  }
  return bytes;
}

}  // namespace moesim
