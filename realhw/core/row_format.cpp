// SPDX-License-Identifier: Apache-2.0
#include "realhw/core/row_format.h"

#include <fmt/format.h>

#include <cstring>
#include <limits>
#include <stdexcept>

#include "realhw/core/row_codec.h"

namespace moesim {
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
    const auto size = static_cast<std::int64_t>(size_of(format));
    if (row_bytes >= elements * size && row_bytes % size == 0) return format;
  }
  throw std::runtime_error(
      fmt::format("rows of {} bytes cannot carry vectors of {} elements", row_bytes, elements));
}

double rounding_of(RowFormat format) {
  return format == RowFormat::float32 ? 0x1p-24 : format == RowFormat::bfloat16 ? 0x1p-8 : 0x1p-4;
}

void encode(RowFormat format, std::span<const float> values, std::byte* row) {
  if (format == RowFormat::float32) {
    if (!values.empty()) std::memcpy(row, values.data(), values.size_bytes());
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
    if (!values.empty()) std::memcpy(values.data(), row, values.size_bytes());
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
