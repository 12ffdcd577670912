// SPDX-License-Identifier: Apache-2.0
// Parameters that travel as what differs most from shared ones: a block of a row keeps its largest
// differences as (index, value). HybridEP (arXiv 2510.19470) moves experts so.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "realhw/core/row_format.h"

struct CUstream_st;

namespace moesim {

struct TopkShape {
  std::int64_t rows = 0, width = 0;
  int block = 1024;  // elements of a row, at most longest_topk_block; the last may be shorter
  int kept = 10;     // of every block, at most `block`
  RowFormat format = RowFormat::bfloat16;  // float32 or bfloat16: of all arrays but the indices

  constexpr std::int64_t blocks() const { return (width + block - 1) / block; }  // of a row
  std::int64_t entries() const { return rows * blocks() * kept; }  // of values and indices
};
inline constexpr int longest_topk_block = 4096;

/// Where one block of a row is in the arrays, counted in their elements.
struct TopkBlock {
  std::int64_t first = 0;  // of x, shared, rest and decoded
  int elements = 0;
  std::int64_t entry = 0;  // the first of `kept` in values and indices
};
/// Blocks are numbered row by row. On CPUs and GPUs.
constexpr TopkBlock topk_block(const TopkShape& shape, std::int64_t number) {
  const std::int64_t blocks = shape.blocks(), row = number / blocks;
  const std::int64_t in_row = number % blocks * shape.block, left = shape.width - in_row;
  return {row * shape.width + in_row, left < shape.block ? static_cast<int>(left) : shape.block,
          number * shape.kept};
}

/// The index of an entry that a short block has no element for. Its value is 0.
inline constexpr std::uint16_t no_element = 0xffff;

/// Row-major arrays in the format; x, shared and rest are [rows x width], values and indices
/// [rows x blocks x kept].
struct TopkArrays {
  const std::byte* shared = nullptr;
  const std::byte* x = nullptr;      // read by encoding
  std::byte* values = nullptr;       // x - shared if it is largest by magnitude, ties to the
  std::uint16_t* indices = nullptr;  // lower index; ascending by index within the block
  std::byte* rest = nullptr;         // x - shared, 0 if it was kept
  std::byte* decoded = nullptr;      // shared, plus values if there are any
};

/// On the CPU. Differences and sums are float32, rounded once. Throws std::runtime_error for a
/// shape that is none.
void topk_encode(const TopkShape& shape, const TopkArrays& arrays);
void topk_decode(const TopkShape& shape, const TopkArrays& arrays);

/// The same numbers on a GPU; arrays are in its memory.
void launch_topk_encode(const TopkShape& shape, const TopkArrays& arrays, CUstream_st* stream);
void launch_topk_decode(const TopkShape& shape, const TopkArrays& arrays, CUstream_st* stream);

/// Throws std::runtime_error for a shape that is none.
void check_shape(const TopkShape& shape);

}  // namespace moesim
