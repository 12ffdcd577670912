// SPDX-License-Identifier: Apache-2.0
#include "realhw/core/numbers.h"

#include <cmath>

namespace moesim {
namespace {

enum Kind : std::uint64_t { token_kind = 1, gradient_kind, gate_kind, parameter_kind, byte_kind };

std::uint64_t whole(std::int64_t value) { return static_cast<std::uint64_t>(value); }

/// Multiples of 1/16 between -15/16 and 15/16. They are exact in float8, so that a wrong element is
/// not rounding; and never zero, so that a missing row shows. Four bits are the magnitude, 0 stands
/// for 8.
void fill_sixteenths(std::uint64_t seed, std::span<float> values) {
  for (std::size_t column = 0; column < values.size(); ++column) {
    const std::uint64_t bits = mix(seed, column);
    const int magnitude = (bits & 15) == 0 ? 8 : static_cast<int>(bits & 15);
    const int value = (bits & 16) != 0 ? -magnitude : magnitude;
    values[column] = static_cast<float>(value) / 16.0f;
  }
}

/// Uniform in [0, 1) with 24 bits, exact in float32.
float unit(std::uint64_t bits) { return static_cast<float>(bits >> 40) * 0x1p-24f; }

/// Calls visit(i, byte that belongs at offset + i). One hash gives 8 bytes: patterns are as long as
/// the parameters of experts.
template <class Visit>
void for_each_byte(std::uint64_t seed, std::size_t offset, std::size_t count, Visit visit) {
  for (std::size_t i = 0; i < count;) {
    const std::size_t at = offset + i;
    std::uint64_t word = mix(seed, at / 8) >> (8 * (at % 8));
    for (std::size_t end = std::min(count, i + 8 - at % 8); i < end; ++i, word >>= 8) {
      visit(i, static_cast<std::byte>(word & 0xff));
    }
  }
}

}  // namespace

void fill_token(int layer, TokenId token, std::span<float> values) {
  fill_sixteenths(mix(mix(token_kind, whole(layer)), whole(token.value)), values);
}

void fill_output_gradient(int layer, TokenId token, std::span<float> values) {
  fill_sixteenths(mix(mix(gradient_kind, whole(layer)), whole(token.value)), values);
}

double raw_gate_weight(int layer, TokenId token, int k) {
  const std::uint64_t seed = mix(mix(gate_kind, whole(layer)), whole(token.value));
  return 1.0 + static_cast<double>(unit(mix(seed, whole(k))));
}

void fill_parameters(int layer, ExpertId expert, int matrix, std::int64_t row, std::int64_t fan_in,
                     std::span<float> values) {
  std::uint64_t seed = mix(mix(parameter_kind, whole(layer)), whole(expert.value));
  seed = mix(mix(seed, whole(matrix)), whole(row));
  const float bound = std::sqrt(3.0f / static_cast<float>(fan_in));
  for (std::size_t column = 0; column < values.size(); ++column) {
    values[column] = (2.0f * unit(mix(seed, column)) - 1.0f) * bound;
  }
}

std::uint64_t pattern_seed(OpId op, GpuId from, GpuId to) {
  return mix(mix(mix(byte_kind, whole(op.value)), whole(from.value)), whole(to.value));
}

void fill_pattern(OpId op, GpuId from, GpuId to, std::size_t offset, std::span<std::byte> bytes) {
  for_each_byte(pattern_seed(op, from, to), offset, bytes.size(),
                [&](std::size_t i, std::byte byte) { bytes[i] = byte; });
}

std::int64_t count_wrong(OpId op, GpuId from, GpuId to, std::size_t offset,
                         std::span<const std::byte> bytes) {
  std::int64_t wrong = 0;
  for_each_byte(pattern_seed(op, from, to), offset, bytes.size(),
                [&](std::size_t i, std::byte byte) { wrong += bytes[i] != byte ? 1 : 0; });
  return wrong;
}

}  // namespace moesim
