// SPDX-License-Identifier: Apache-2.0
// Our kernels. Lists and what they point to are in device memory; launches return at once, do
// nothing for empty lists, may be captured, and throw std::runtime_error when CUDA refuses them.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "realhw/core/row_format.h"

namespace moesim::cuda {

struct RowTerm {
  const std::byte* row = nullptr;
  float weight = 1;
  RowFormat format = RowFormat::float32;
};

/// Row i, at to[i], is the sum of weight x row over terms first[i] to first[i + 1], each product
/// and sum rounded to float32. A row of one term with weight 1 in the same format is copied.
struct RowSumsList {
  std::int64_t rows = 0, width = 0;
  RowFormat format = RowFormat::float32;  // of the results
  std::byte* const* to = nullptr;
  const std::uint32_t* first = nullptr;
  const RowTerm* terms = nullptr;
};
void launch_row_sums(const RowSumsList& list, cudaStream_t stream);

struct ActivationRange {
  std::int64_t first_row = 0;  // counted over all ranges
  const std::byte* h = nullptr;
  const std::byte* out_gradient = nullptr;
  std::byte* result = nullptr;  // out, or the gradient by h
};
struct ActivationList {
  std::int64_t rows = 0, ffn = 0;
  int ranges = 0;  // none of them empty
  const ActivationRange* range = nullptr;
  bool gated = false, gradient = false;
  RowFormat h = RowFormat::float32, out_gradient = RowFormat::float32, result = RowFormat::float32;
};
void launch_activation(const ActivationList& list, cudaStream_t stream);

struct PatternRange {
  std::byte* at = nullptr;
  std::int64_t bytes = 0, in_message = 0;
  std::uint64_t seed = 0;  // pattern_seed
};
void launch_write_pattern(const PatternRange* ranges, std::int64_t count, cudaStream_t stream);
/// Adds the number of bytes that differ to *wrong.
void launch_compare_pattern(const PatternRange* ranges, std::int64_t count,
                            unsigned long long* wrong, cudaStream_t stream);

struct FiniteRange {
  const std::byte* at = nullptr;
  std::int64_t elements = 0;
  RowFormat format = RowFormat::float32;
};
/// Lowers *first_op to `op` when an element is infinite or no number.
void launch_finite_check(const FiniteRange* ranges, std::int64_t count, std::int32_t op,
                         std::int32_t* first_op, cudaStream_t stream);

/// bfloat16 pairs uniform in (-1, 1), which read as float32 lie there too.
void launch_fill(std::byte* at, std::int64_t bytes, cudaStream_t stream);
/// Reads and writes so many bytes, in units of 16, from `start` on and over and over again within
/// `window` of each buffer.
struct Move {
  const std::byte* in = nullptr;
  std::int64_t read = 0;
  std::byte* out = nullptr;
  std::int64_t written = 0;
  std::int64_t start = 0;   // bytes, a multiple of 16
  std::int64_t window = 0;  // bytes, a power of two
};
void launch_move(const Move& move, cudaStream_t stream);

}  // namespace moesim::cuda
