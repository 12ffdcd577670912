// SPDX-License-Identifier: Apache-2.0
#include "realhw/core/row_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <stdexcept>

namespace moesim {
namespace {

std::uint16_t to_bfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

float from_bfloat16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

constexpr float largest_float8 = 448;

/// Sign, four bits of exponent (bias 7), three of mantissa; all ones is no number.
std::uint8_t to_float8(float value) {
  const auto sign = static_cast<std::uint8_t>(std::signbit(value) ? 0x80 : 0);
  const float magnitude = std::min(std::fabs(value), largest_float8);
  if (magnitude < 0x1p-10f) return sign;
  const int exponent = std::max(std::ilogb(magnitude), -6);
  // In units of the last place; 16 carries into the exponent by itself.
  const auto units = static_cast<int>(std::nearbyint(std::ldexp(magnitude, 3 - exponent)));
  return static_cast<std::uint8_t>(sign | ((exponent + 6) * 8 + units));
}

float from_float8(std::uint8_t bits) {
  const int exponent = bits >> 3 & 15, mantissa = bits & 7;
  const float magnitude = exponent == 0
                              ? std::ldexp(static_cast<float>(mantissa), -9)
                              : std::ldexp(static_cast<float>(8 + mantissa), exponent - 10);
  return (bits & 0x80) != 0 ? -magnitude : magnitude;
}

}  // namespace

const char* name_of(RowFormat format) {
  switch (format) {
    case RowFormat::float32:
      return "float32";
    case RowFormat::bfloat16:
      return "bfloat16";
    case RowFormat::float8:
      return "float8";
  }
  return "";
}

std::size_t size_of(RowFormat format) {
  return format == RowFormat::float32 ? 4 : format == RowFormat::bfloat16 ? 2 : 1;
}

RowFormat format_for(std::int64_t row_bytes, std::int64_t elements) {
  for (const RowFormat format : {RowFormat::float32, RowFormat::bfloat16, RowFormat::float8}) {
    if (row_bytes >= elements * static_cast<std::int64_t>(size_of(format))) return format;
  }
  throw std::runtime_error(
      fmt::format("rows of {} bytes cannot carry vectors of {} elements", row_bytes, elements));
}

double rounding_of(RowFormat format) {
  return format == RowFormat::float32 ? 0x1p-24 : format == RowFormat::bfloat16 ? 0x1p-8 : 0x1p-4;
}

void encode(RowFormat format, std::span<const float> values, std::byte* row) {
  if (format == RowFormat::float32) {
    std::memcpy(row, values.data(), values.size_bytes());
    return;
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (format == RowFormat::bfloat16) {
      const std::uint16_t bits = to_bfloat16(values[i]);
      std::memcpy(row + 2 * i, &bits, 2);
    } else {
      row[i] = static_cast<std::byte>(to_float8(values[i]));
    }
  }
}

void decode(RowFormat format, const std::byte* row, std::span<float> values) {
  if (format == RowFormat::float32) {
    std::memcpy(values.data(), row, values.size_bytes());
    return;
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (format == RowFormat::bfloat16) {
      std::uint16_t bits = 0;
      std::memcpy(&bits, row + 2 * i, 2);
      values[i] = from_bfloat16(bits);
    } else {
      values[i] = from_float8(static_cast<std::uint8_t>(row[i]));
    }
  }
}

}  // namespace moesim
