// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/external/packed_loads.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <string_view>

namespace moesim {
namespace {

void append_base64(std::string_view bytes, std::string& text) {
  constexpr std::string_view digits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::size_t at = text.size();
  text.resize(at + (bytes.size() + 2) / 3 * 4, '=');
  for (std::size_t from = 0; from < bytes.size(); from += 3, at += 4) {
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - from);
    std::uint32_t bits = 0;
    for (std::size_t i = 0; i < count; ++i) {
      bits |= std::uint32_t{static_cast<unsigned char>(bytes[from + i])} << (16 - 8 * i);
    }
    for (std::size_t i = 0; i <= count; ++i) text[at + i] = digits[bits >> (18 - 6 * i) & 63];
  }
}

/// Bytes of a number, so that all fit.
std::size_t bytes_of_each(const LoadMatrix& loads) {
  std::uint64_t all = 0;
  for (int r = 0; r < loads.sources(); ++r) {
    for (const std::int64_t load : loads.row(GpuId(r))) all |= static_cast<std::uint64_t>(load);
  }
  return std::bit_ceil(std::max<std::size_t>(1, (std::bit_width(all) + 7U) / 8));
}

}  // namespace

std::string lists_of(const LoadMatrix& loads) {
  std::string text = "[";
  for (int r = 0; r < loads.sources(); ++r) {
    text += r == 0 ? "[" : ",[";
    for (const std::int64_t load : loads.row(GpuId(r))) {
      const fmt::format_int digits(load);
      text.append(digits.data(), digits.size());
      text += ',';
    }
    text.back() = ']';
  }
  return text + ']';
}

std::string packed(const LoadMatrix& loads) {
  const std::size_t each = bytes_of_each(loads);
  std::string bytes(
      static_cast<std::size_t>(loads.sources()) * static_cast<std::size_t>(loads.experts()) * each,
      '\0');
  std::size_t at = 0;
  for (int r = 0; r < loads.sources(); ++r) {
    for (const std::int64_t load : loads.row(GpuId(r))) {
      for (std::size_t b = 0; b < each; ++b) bytes[at++] = static_cast<char>(load >> (8 * b));
    }
  }
  std::string text = fmt::format(R"({{"shape":[{},{}],"bytes":{},"base64":")", loads.sources(),
                                 loads.experts(), each);
  append_base64(bytes, text);
  return text + "\"}";
}

}  // namespace moesim
