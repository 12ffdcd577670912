// SPDX-License-Identifier: Apache-2.0
#include <limits>
#include <stdexcept>

#include "realhw/cuda/check.h"
#include "realhw/cuda/kernels/row_access.cuh"
#include "realhw/cuda/topk.h"

namespace moesim {
namespace cuda {
namespace {

constexpr int threads = 256;
constexpr int warps = threads / 32;
constexpr unsigned all_lanes = 0xffffffff;

/// A count over all threads of the block; all of them call.
__device__ int block_sum(int value, int* of_warps) {
  const int sum = __reduce_add_sync(all_lanes, value);
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = sum;
  __syncthreads();
  int total = 0;
  for (int w = 0; w < warps; ++w) total += of_warps[w];
  __syncthreads();
  return total;
}

struct Rank {
  int before;  // lower threads whose flag is set
  int total;   // threads whose flag is set
};

__device__ Rank block_rank(bool flag, int* of_warps) {
  const unsigned votes = __ballot_sync(all_lanes, flag);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  if (lane == 0) of_warps[warp] = __popc(votes);
  __syncthreads();
  Rank rank{__popc(votes & ((1u << lane) - 1)), 0};
  for (int w = 0; w < warps; ++w) {
    if (w < warp) rank.before += of_warps[w];
    rank.total += of_warps[w];
  }
  __syncthreads();
  return rank;
}

/// How many of the block's magnitudes are at least that.
__device__ int count_from(const float* x, int elements, std::uint32_t least, int* of_warps) {
  int count = 0;
  for (int i = threadIdx.x; i < elements; i += threads) {
    count += (__float_as_uint(x[i]) & 0x7fffffff) >= least ? 1 : 0;
  }
  return block_sum(count, of_warps);
}

/// A thread block is one block of one row.
__global__ void __launch_bounds__(threads)
    encode_topk(const TopkShape shape, const TopkArrays arrays) {
  __shared__ float x[longest_topk_block];
  __shared__ int of_warps[warps];
  const auto [first, elements, entries] = topk_block(shape, blockIdx.x);
  const int size = element_size(shape.format);
  for (int i = threadIdx.x; i < elements; i += threads) {
    const std::int64_t at = (first + i) * size;
    x[i] = __fsub_rn(load_element(arrays.x + at, shape.format),
                     load_element(arrays.shared + at, shape.format));
  }
  __syncthreads();
  const int kept = shape.kept < elements ? shape.kept : elements;
  // The largest magnitude that at least `kept` elements reach, bit by bit.
  std::uint32_t threshold = 0;
  for (int bit = 30; bit >= 0; --bit) {
    const std::uint32_t candidate = threshold | 1u << bit;
    if (count_from(x, elements, candidate, of_warps) >= kept) threshold = candidate;
  }
  const int ties_kept = kept - count_from(x, elements, threshold + 1, of_warps);
  std::byte* values = arrays.values + entries * size;
  std::uint16_t* indices = arrays.indices + entries;
  int ties = 0, written = 0;
  for (int start = 0; start < elements; start += threads) {
    const int i = start + static_cast<int>(threadIdx.x);
    const float value = i < elements ? x[i] : 0.0f;
    const std::uint32_t magnitude = __float_as_uint(value) & 0x7fffffff;
    const bool tie = i < elements && magnitude == threshold;
    const Rank tie_rank = block_rank(tie, of_warps);
    const bool keep =
        (i < elements && magnitude > threshold) || (tie && ties + tie_rank.before < ties_kept);
    const Rank rank = block_rank(keep, of_warps);
    if (keep) {
      const int entry = written + rank.before;
      store_element(values + entry * size, shape.format, value);
      indices[entry] = static_cast<std::uint16_t>(i);
    }
    if (i < elements) {
      store_element(arrays.rest + (first + i) * size, shape.format, keep ? 0.0f : value);
    }
    ties += tie_rank.total;
    written += rank.total;
  }
  for (int entry = kept + static_cast<int>(threadIdx.x); entry < shape.kept; entry += threads) {
    store_element(values + entry * size, shape.format, 0.0f);
    indices[entry] = no_element;
  }
}

__global__ void __launch_bounds__(threads)
    decode_topk(const TopkShape shape, const TopkArrays arrays) {
  const auto [first, elements, entries] = topk_block(shape, blockIdx.x);
  const int size = element_size(shape.format);
  for (int i = threadIdx.x; i < elements; i += threads) {
    const std::int64_t at = (first + i) * size;
    store_element(arrays.decoded + at, shape.format,
                  load_element(arrays.shared + at, shape.format));
  }
  __syncthreads();  // an element is written again, by another thread of this block
  for (int entry = threadIdx.x; entry < shape.kept; entry += threads) {
    const std::uint16_t index = arrays.indices[entries + entry];
    if (index == no_element) continue;
    const std::int64_t at = (first + index) * size;
    const float value = load_element(arrays.values + (entries + entry) * size, shape.format);
    store_element(arrays.decoded + at, shape.format,
                  __fadd_rn(load_element(arrays.shared + at, shape.format), value));
  }
}

/// Thread blocks of a launch, 0 for none.
unsigned grid_of(const TopkShape& shape) {
  check_shape(shape);
  const std::int64_t blocks = shape.rows * shape.blocks();
  if (blocks > std::numeric_limits<std::int32_t>::max()) {
    throw std::runtime_error("more top-k blocks than a grid has");
  }
  return static_cast<unsigned>(blocks);
}

}  // namespace
}  // namespace cuda

void launch_topk_encode(const TopkShape& shape, const TopkArrays& arrays, cudaStream_t stream) {
  const unsigned grid = cuda::grid_of(shape);
  if (grid == 0) return;
  cuda::encode_topk<<<grid, cuda::threads, 0, stream>>>(shape, arrays);
  cuda::check(cudaGetLastError());
}

void launch_topk_decode(const TopkShape& shape, const TopkArrays& arrays, cudaStream_t stream) {
  const unsigned grid = cuda::grid_of(shape);
  if (grid == 0) return;
  cuda::decode_topk<<<grid, cuda::threads, 0, stream>>>(shape, arrays);
  cuda::check(cudaGetLastError());
}

}  // namespace moesim
