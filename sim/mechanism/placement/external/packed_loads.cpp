// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/external/packed_loads.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdint>

namespace moesim {
namespace {

/// Bytes of a number, so that all fit.
std::size_t bytes_of_each(const LoadMatrix& loads) {
  std::uint64_t all = 0;
  for (int r = 0; r < loads.sources(); ++r) {
    for (const std::int64_t load : loads.row(GpuId(r))) all |= static_cast<std::uint64_t>(load);
  }
  return std::bit_ceil(std::max<std::size_t>(1, (std::bit_width(all) + 7U) / 8));
}

/// A constant number of bytes lets the compiler write many numbers at once.
template <std::size_t each>
void put(const LoadMatrix& loads, std::string& bytes) {
  char* to = bytes.data();
  for (int r = 0; r < loads.sources(); ++r) {
    for (const std::int64_t load : loads.row(GpuId(r))) {
      for (std::size_t b = 0; b < each; ++b) to[b] = static_cast<char>(load >> (8 * b));
      to += each;
    }
  }
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

PackedLoads packed(const LoadMatrix& loads) {
  const std::size_t each = bytes_of_each(loads);
  PackedLoads made{
      fmt::format(R"({{"shape":[{},{}],"bytes":{}}})", loads.sources(), loads.experts(), each),
      std::string(static_cast<std::size_t>(loads.sources()) *
                      static_cast<std::size_t>(loads.experts()) * each,
                  '\0')};
  switch (each) {
    case 1:
      put<1>(loads, made.bytes);
      break;
    case 2:
      put<2>(loads, made.bytes);
      break;
    case 4:
      put<4>(loads, made.bytes);
      break;
    default:
      put<8>(loads, made.bytes);
  }
  return made;
}

}  // namespace moesim
