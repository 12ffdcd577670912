// SPDX-License-Identifier: Apache-2.0
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "tests/realhw/emulated/probes.h"

namespace moesim::emulated {
namespace {

constexpr int threads = 256;
constexpr int warps = threads / 32;

__global__ void sum_blocks(Probe probe, const float* in, std::int64_t count, float* sums) {
  extern __shared__ float x[];
  const int t = static_cast<int>(threadIdx.x);
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * threads + t;
  if (i < count) x[t] = in[i];
  if (i >= count && probe != Probe::not_written) x[t] = 0;
  __syncthreads();
  for (int half = threads / 2; half > 0; half /= 2) {
    if (t < half) x[t] += x[t + half];
    if (probe == Probe::divergent && t >= half) return;
    if (probe != Probe::no_barrier) __syncthreads();
  }
  if (t == 0) sums[blockIdx.x] = x[probe == Probe::behind_shared ? threads : 0];
}

__global__ void sum_warps(Probe probe, const float* in, float* sums, bool half) {
  __shared__ float of_lanes[threads];
  const int lane = static_cast<int>(threadIdx.x % 32), t = static_cast<int>(threadIdx.x);
  of_lanes[t] = in[blockIdx.x * threads + threadIdx.x];
  if (probe != Probe::no_warp_barrier) __syncwarp();
  float value = of_lanes[t ^ 1];  // its neighbour's: the sum is the same
  if (probe == Probe::missing_lane && lane == 5) return;
  for (int by = 16; by > 0; by /= 2) {
    const float other = __shfl_xor_sync(0xffffffff, value, by);
    value = half ? __half2float(__hadd(__float2half(value), __float2half(other)))
                 : __bfloat162float(__hadd(__float2bfloat16(value), __float2bfloat16(other)));
  }
  if (lane == 0) sums[blockIdx.x * warps + threadIdx.x / 32] = value;
}

__global__ void scale_rows(Probe probe, float* x, unsigned width, float factor, unsigned* total) {
  const unsigned pitch = probe == Probe::wrong_stride ? width + 1 : width;
  float* row = x + blockIdx.x * pitch;
  for (unsigned i = threadIdx.x; i < width; i += threads) {
    const unsigned at = probe == Probe::same_element && i == 1 ? 0 : i;
    row[at] *= factor;
    if (probe == Probe::every_block) {
      *total += 1;
    } else {
      atomicAdd(total, 1u);
    }
  }
  if (probe == Probe::behind_end && threadIdx.x == 0) row[0] += row[width];
  if (probe == Probe::misaligned && threadIdx.x == 0) {
    float4* four = reinterpret_cast<float4*>(row + 1);
    four->x += 1;
  }
}

__global__ void too_many(float* x) { x[threadIdx.x] = 0; }

}  // namespace

void launch_sum_blocks(Probe probe, const float* in, std::int64_t count, float* sums,
                       cudaStream_t stream) {
  const unsigned grid = static_cast<unsigned>((count + threads - 1) / threads);
  sum_blocks<<<grid, threads, threads * sizeof(float), stream>>>(probe, in, count, sums);
}

void launch_sum_warps(Probe probe, const float* in, unsigned all_warps, float* sums, bool half,
                      cudaStream_t stream) {
  sum_warps<<<all_warps / warps, threads, 0, stream>>>(probe, in, sums, half);
}

void launch_scale_rows(Probe probe, float* x, unsigned rows, unsigned width, float factor,
                       unsigned* total, cudaStream_t stream) {
  scale_rows<<<rows, threads, 0, stream>>>(probe, x, width, factor, total);
}

void launch_too_many(float* x, cudaStream_t stream) { too_many<<<1, 2048, 0, stream>>>(x); }

}  // namespace moesim::emulated
