// SPDX-License-Identifier: Apache-2.0
// Work on data without meaning, but not on zeros, which clocks and caches favour.
#include <algorithm>

#include "realhw/core/numbers.h"
#include "realhw/core/row_codec.h"
#include "realhw/cuda/check.h"
#include "realhw/cuda/kernels/kernels.h"

namespace moesim::cuda {
namespace {

constexpr int threads = 256;
constexpr std::int64_t most_blocks = 132 * 16;  // more than any GPU holds at once

__device__ std::int64_t first_index() {
  return static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x;
}
__device__ std::int64_t index_stride() { return static_cast<std::int64_t>(gridDim.x) * threads; }

__device__ std::uint32_t bfloat16_of(std::uint32_t bits) {
  const float unit = static_cast<float>(bits & 0xffff) * 0x1p-15f - 1.0f;
  return to_bfloat16(unit == 0.0f ? 0.5f : unit);
}

__global__ void __launch_bounds__(threads) fill(std::uint32_t* at, std::int64_t words) {
  for (std::int64_t i = first_index(); i < words; i += index_stride()) {
    const auto bits = static_cast<std::uint32_t>(mix(7, static_cast<std::uint64_t>(i)));
    at[i] = bfloat16_of(bits) | bfloat16_of(bits >> 16) << 16;
  }
}

/// Counts are of uint4.
__global__ void __launch_bounds__(threads)
    move(const uint4* __restrict__ in, std::int64_t read, uint4* __restrict__ out,
         std::int64_t written, std::int64_t start, std::int64_t mask) {
  uint4 kept = make_uint4(1, 2, 3, 4);
  const std::int64_t most = read > written ? read : written;
  for (std::int64_t i = first_index(); i < most; i += index_stride()) {
    if (i < read) {
      const uint4 value = in[(start + i) & mask];
      kept.x ^= value.x, kept.y ^= value.y, kept.z ^= value.z, kept.w ^= value.w;
    }
    if (i < written) out[(start + i) & mask] = kept;
  }
  // What no data makes: the compiler must read all the same.
  if ((kept.x & kept.y & kept.z & kept.w) == 0xffffffff && most > 0) out[0] = kept;
}

unsigned blocks_for(std::int64_t items) {
  return static_cast<unsigned>(std::min((items + threads - 1) / threads, most_blocks));
}

}  // namespace

void launch_fill(std::byte* at, std::int64_t bytes, cudaStream_t stream) {
  const std::int64_t words = bytes / 4;
  if (words == 0) return;
  fill<<<blocks_for(words), threads, 0, stream>>>(reinterpret_cast<std::uint32_t*>(at), words);
  check(cudaGetLastError());
}

void launch_move(const Move& m, cudaStream_t stream) {
  const std::int64_t read = (m.read + 15) / 16, written = (m.written + 15) / 16;
  const std::int64_t most = std::max(read, written);
  if (most == 0) return;
  move<<<blocks_for(most), threads, 0, stream>>>(reinterpret_cast<const uint4*>(m.in), read,
                                                 reinterpret_cast<uint4*>(m.out), written,
                                                 m.start / 16, m.window / 16 - 1);
  check(cudaGetLastError());
}

}  // namespace moesim::cuda
