// SPDX-License-Identifier: Apache-2.0
// One element of a row in its format, for CPUs and, as nothing here needs a library, for GPUs.
#pragma once

#include <bit>
#include <cstdint>

namespace moesim {

/// Rounds to the nearest, ties to even.
constexpr std::uint16_t to_bfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return static_cast<std::uint16_t>(bits >> 16 | 0x40);
  return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

constexpr float from_bfloat16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

/// Sign, four bits of exponent (bias 7), three of mantissa; all ones is not a number. Rounds to the
/// nearest, ties to even; values beyond the largest, 448, become it.
constexpr std::uint8_t to_float8(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint8_t>(bits >> 24 & 0x80);
  const std::uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return static_cast<std::uint8_t>(sign | 0x7f);
  if (magnitude >= std::bit_cast<std::uint32_t>(448.0f)) {
    return static_cast<std::uint8_t>(sign | 0x7e);
  }
  if (magnitude < std::bit_cast<std::uint32_t>(0x1p-6f)) {  // multiples of 2^-9
    // The sum's last place is 1: adding rounds.
    const float units = (std::bit_cast<float>(magnitude) * 512.0f + 0x1p23f) - 0x1p23f;
    return static_cast<std::uint8_t>(sign | static_cast<std::uint8_t>(units));
  }
  const std::uint32_t rounded = magnitude + 0x7ffff + (magnitude >> 20 & 1);
  return static_cast<std::uint8_t>(sign | ((rounded >> 20) - (120u << 3)));
}

constexpr float from_float8(std::uint8_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x80) << 24;
  const std::uint32_t magnitude = bits & 0x7f;
  if (magnitude == 0x7f) return std::bit_cast<float>(sign | 0x7fc00000);
  if (magnitude < 8) {
    const float value = static_cast<float>(magnitude) * 0x1p-9f;
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(value));
  }
  return std::bit_cast<float>(sign | ((magnitude << 20) + (120u << 23)));
}

}  // namespace moesim
