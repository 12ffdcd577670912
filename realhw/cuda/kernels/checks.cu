// SPDX-License-Identifier: Apache-2.0
// Patterns in bytes without numbers, and the search for infinities. Only verified runs need them.
#include "realhw/core/numbers.h"
#include "realhw/cuda/check.h"
#include "realhw/cuda/kernels/kernels.h"
#include "realhw/cuda/kernels/row_access.cuh"

namespace moesim::cuda {
namespace {

constexpr int threads = 256;
constexpr unsigned blocks_per_range = 32;

/// Calls visit(place, byte that belongs there) for the thread's share of a range.
template <class Visit>
__device__ void for_each_byte(const PatternRange& range, Visit visit) {
  const std::int64_t end = range.in_message + range.bytes;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.y) * threads;
  std::int64_t word =
      range.in_message / 8 + static_cast<std::int64_t>(blockIdx.y) * threads + threadIdx.x;
  for (; word * 8 < end; word += stride) {
    const std::uint64_t bits = mix(range.seed, static_cast<std::uint64_t>(word));
    for (int i = 0; i < 8; ++i) {
      const std::int64_t at = word * 8 + i;
      if (at < range.in_message || at >= end) continue;
      visit(range.at + (at - range.in_message), static_cast<std::byte>(bits >> (8 * i) & 0xff));
    }
  }
}

__global__ void __launch_bounds__(threads) write_pattern(const PatternRange* ranges) {
  for_each_byte(ranges[blockIdx.x], [](std::byte* at, std::byte byte) { *at = byte; });
}

__global__ void __launch_bounds__(threads)
    compare_pattern(const PatternRange* ranges, unsigned long long* wrong) {
  unsigned long long found = 0;
  for_each_byte(ranges[blockIdx.x],
                [&](const std::byte* at, std::byte byte) { found += *at != byte ? 1 : 0; });
  if (found > 0) atomicAdd(wrong, found);
}

__device__ bool is_finite(const std::byte* at, RowFormat format) {
  if (format == RowFormat::float8) return (load_bytes<std::uint8_t>(at) & 0x7f) != 0x7f;
  if (format == RowFormat::bfloat16) return (load_bytes<std::uint16_t>(at) & 0x7f80) != 0x7f80;
  return (load_bytes<std::uint32_t>(at) & 0x7f800000) != 0x7f800000;
}

__global__ void __launch_bounds__(threads)
    finite_check(const FiniteRange* ranges, std::int32_t op, std::int32_t* first_op) {
  const FiniteRange range = ranges[blockIdx.x];
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.y) * threads;
  bool finite = true;
  std::int64_t i = static_cast<std::int64_t>(blockIdx.y) * threads + threadIdx.x;
  for (; i < range.elements; i += stride) {
    finite = finite && is_finite(range.at + i * element_size(range.format), range.format);
  }
  if (!finite) atomicMin(first_op, op);
}

dim3 grid_of(std::int64_t ranges) { return {static_cast<unsigned>(ranges), blocks_per_range}; }

}  // namespace

void launch_write_pattern(const PatternRange* ranges, std::int64_t count, cudaStream_t stream) {
  if (count == 0) return;
  write_pattern<<<grid_of(count), threads, 0, stream>>>(ranges);
  check(cudaGetLastError());
}

void launch_compare_pattern(const PatternRange* ranges, std::int64_t count,
                            unsigned long long* wrong, cudaStream_t stream) {
  if (count == 0) return;
  compare_pattern<<<grid_of(count), threads, 0, stream>>>(ranges, wrong);
  check(cudaGetLastError());
}

void launch_finite_check(const FiniteRange* ranges, std::int64_t count, std::int32_t op,
                         std::int32_t* first_op, cudaStream_t stream) {
  if (count == 0) return;
  finite_check<<<grid_of(count), threads, 0, stream>>>(ranges, op, first_op);
  check(cudaGetLastError());
}

}  // namespace moesim::cuda
