// SPDX-License-Identifier: Apache-2.0
// The numbers that steps on hardware compute with. Each is a pure function of its place, so that
// any process knows what any other one must hold, without a message.
#pragma once

#include <cstdint>
#include <span>

#include "sim/base/types.h"

namespace moesim {

/// Spreads a sequence of whole numbers over 64 bits (finalizer of SplitMix64; Steele, Lea and
/// Flood, OOPSLA 2014).
constexpr std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  hash = (hash + 0x9e3779b97f4a7c15ULL) ^ value;
  hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9ULL;
  hash = (hash ^ (hash >> 27)) * 0x94d049bb133111ebULL;
  return hash ^ (hash >> 31);
}

/// The vector of a token at the entry of a layer. Every element is one of +-1/16 ... +-15/16: never
/// zero, and exact in float32, bfloat16 and float8 (e4m3).
void fill_token(int layer, TokenId token, std::span<float> values);
/// The gradient of the layer's output for a token; values as above.
void fill_output_gradient(int layer, TokenId token, std::span<float> values);
/// A gate weight before it is divided by the sum over its token, in [1, 2).
double raw_gate_weight(int layer, TokenId token, int k);
/// One row of a parameter matrix of an expert, uniform in +-sqrt(3 / fan_in).
void fill_parameters(int layer, ExpertId expert, int matrix, std::int64_t row, std::int64_t fan_in,
                     std::span<float> values);
/// Where the pattern of a message starts: byte i of it is byte i % 8, the lowest first, of
/// mix(seed, i / 8).
std::uint64_t pattern_seed(OpId op, GpuId from, GpuId to);
/// Bytes that stand for what has no numbers of its own; those of an (op, sender, receiver) differ
/// from those of any other.
void fill_pattern(OpId op, GpuId from, GpuId to, std::size_t offset, std::span<std::byte> bytes);
/// How many bytes differ from the pattern.
std::int64_t count_wrong(OpId op, GpuId from, GpuId to, std::size_t offset,
                         std::span<const std::byte> bytes);

}  // namespace moesim
