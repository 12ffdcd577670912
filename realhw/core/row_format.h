// SPDX-License-Identifier: Apache-2.0
// How a token vector is in a row of an exchange.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace moesim {

/// The type of a vector's elements on the wire.
enum class RowFormat { float32, bfloat16, float8 };  // float8: e4m3, no infinities
const char* name_of(RowFormat format);
std::size_t size_of(RowFormat format);  // bytes per element

/// The widest format whose elements fit into a row and stay aligned in rows that lie densely.
/// Throws std::runtime_error when none does.
RowFormat format_for(std::int64_t row_bytes, std::int64_t elements);
/// The largest relative error of an element that is rounded once.
double rounding_of(RowFormat format);

/// Rounds to the nearest (ties to even); values beyond float8 become its largest. NaN stays NaN, so
/// that poison shows.
void encode(RowFormat format, std::span<const float> values, std::byte* row);
void decode(RowFormat format, const std::byte* row, std::span<float> values);

}  // namespace moesim
