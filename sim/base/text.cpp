// SPDX-License-Identifier: Apache-2.0
#include "sim/base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace moesim {
namespace {

/// Bytes of the UTF-8 sequence at the front, 0 when there is none (RFC 3629: no surrogates, nothing
/// longer than needed or above U+10FFFF).
std::size_t sequence_length(std::string_view text) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
  };
  const unsigned first = byte(0);
  const auto continues = [&](std::size_t i, unsigned low = 0x80, unsigned high = 0xbf) {
    return byte(i) >= low && byte(i) <= high;
  };
  if (first < 0x80) return first == 0 ? 0 : 1;
  if (first >= 0xc2 && first <= 0xdf) return continues(1) ? 2 : 0;
  if (first >= 0xe0 && first <= 0xef) {
    const bool sound = continues(1, first == 0xe0 ? 0xa0 : 0x80, first == 0xed ? 0x9f : 0xbf);
    return sound && continues(2) ? 3 : 0;
  }
  if (first < 0xf0 || first > 0xf4) return 0;
  const bool sound = continues(1, first == 0xf0 ? 0x90 : 0x80, first == 0xf4 ? 0x8f : 0xbf);
  return sound && continues(2) && continues(3) ? 4 : 0;
}

/// Bytes of the control character at the front, 0 when there is none that a terminal acts on. Those
/// of C1 are two bytes in UTF-8, U+0080 to U+009F. The ones that turn the direction of what follows
/// make a name read as another one: U+061C, U+200E and U+200F, U+202A to U+202E, U+2066 to U+2069.
std::size_t control_length(std::string_view text) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
  };
  const auto from = [](unsigned value, unsigned least, unsigned most) {
    return least <= value && value <= most;
  };
  if (byte(0) == '\n' || byte(0) == '\t') return 0;
  if (byte(0) < 0x20 || byte(0) == 0x7f) return 1;
  if (byte(0) == 0xc2) return from(byte(1), 0x80, 0x9f) ? 2 : 0;
  if (byte(0) == 0xd8) return byte(1) == 0x9c ? 2 : 0;
  if (byte(0) != 0xe2) return 0;
  const bool turns = byte(1) == 0x80 ? from(byte(2), 0x8e, 0x8f) || from(byte(2), 0xaa, 0xae)
                                     : byte(1) == 0x81 && from(byte(2), 0xa6, 0xa9);
  return turns ? 3 : 0;
}

/// The first byte that is NUL or no UTF-8, or the text's size.
std::size_t first_not_text(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const auto byte = static_cast<unsigned char>(text[at]);
    const bool ascii = byte > 0 && byte < 0x80;
    const std::size_t length = ascii ? 1 : sequence_length(text.substr(at, 4));
    if (length == 0) return at;
    at += length;
  }
  return text.size();
}

/// What wrote a file that is no text, by its first bytes; empty if they are nobody's.
std::string_view packer_of(std::string_view text) {
  using namespace std::string_view_literals;
  constexpr std::array packers = {std::pair{"\x1f\x8b"sv, "gzip"sv}, std::pair{"BZh"sv, "bzip2"sv},
                                  std::pair{"\x28\xb5\x2f\xfd"sv, "zstd"sv},
                                  std::pair{"\xfd"
                                            "7zXZ"sv,
                                            "xz"sv},
                                  std::pair{"PK\x03\x04"sv, "zip"sv}};
  for (const auto& [mark, name] : packers) {
    if (text.starts_with(mark)) return name;
  }
  return {};
}

}  // namespace

std::string printable(std::string_view text) {
  // Nearly every text: no byte that could begin a control character.
  const auto is_plain = [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return (byte >= 0x20 && byte != 0x7f && byte < 0xc2) || byte == '\n' || byte == '\t';
  };
  if (std::ranges::all_of(text, is_plain)) return std::string(text);
  std::string shown;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = control_length(text.substr(at));
    if (length == 0) shown += text[at];
    for (std::size_t i = 0; i < length; ++i) {
      shown += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[at + i]));
    }
    at += std::max<std::size_t>(length, 1);
  }
  return shown;
}

Error error_at(const std::string& file, std::string_view text, std::size_t offset,
               std::string message, std::string hint, int first_line) {
  const std::string_view before = text.substr(0, offset);
  const std::size_t begin = before.rfind('\n') + 1;  // npos + 1 is 0
  std::string_view line = text.substr(begin, text.find('\n', begin) - begin);
  if (line.ends_with('\r')) line.remove_suffix(1);
  const auto lines_before = static_cast<int>(std::count(before.begin(), before.end(), '\n'));
  const int column = static_cast<int>(before.size() - begin) + 1;
  return Error({{Severity::error, file, first_line + lines_before, column, std::move(message),
                 std::string(line), std::move(hint)}});
}

bool is_text(std::string_view text) { return first_not_text(text) == text.size(); }

bool is_utf16(std::string_view text) {
  return text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff");
}

std::string_view without_mark(std::string_view text, const std::string& file) {
  constexpr std::string_view mark = "\xef\xbb\xbf";
  if (is_utf16(text)) check_text(text, file);
  return text.starts_with(mark) ? text.substr(mark.size()) : text;
}

void check_unpacked(std::string_view start, const std::string& file) {
  const std::string_view packer = packer_of(start);
  if (is_utf16(start) || (!packer.empty() && packer != "zip")) check_text(start, file);
}

void check_text(std::string_view text, const std::string& file, int first_line) {
  const std::size_t at = first_not_text(text);
  if (at == text.size()) return;
  if (const std::string_view packer = packer_of(text); !packer.empty()) {
    throw error_in(file, fmt::format("is packed by {}", packer), "unpack it first");
  }
  const auto byte = static_cast<unsigned char>(text[at]);
  const bool utf16 = is_utf16(text);
  const std::string what = utf16       ? "this is UTF-16 text"
                           : byte == 0 ? "a byte is 0, so this is not text"
                                       : fmt::format("byte 0x{:02x} is not UTF-8 text", byte);
  Diagnostic d = error_at(file, text, at, what, "", first_line).diagnostics().front();
  d.source_line.clear();  // no terminal shows it
  d.hint = byte == 0 ? "is this another kind of file?"
                     : fmt::format("save it as UTF-8, for example with iconv -f {} -t utf-8",
                                   utf16 ? "utf-16" : "latin1");
  throw Error({d});
}

}  // namespace moesim
