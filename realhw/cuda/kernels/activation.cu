// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "realhw/cuda/check.h"
#include "realhw/cuda/kernels/kernels.h"
#include "realhw/cuda/kernels/row_access.cuh"

namespace moesim::cuda {
namespace {

constexpr int threads = 128;

/// The last range that starts at the row or before it.
__device__ ActivationRange range_of(const ActivationList& list, std::int64_t row) {
  int low = 0, high = list.ranges;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (list.range[middle].first_row <= row ? low : high) = middle;
  }
  return list.range[low];
}

/// A block is one row, or every gridDim.y-th part of one.
__global__ void __launch_bounds__(threads) activation(const ActivationList list) {
  const std::int64_t row = blockIdx.x;
  const ActivationRange range = range_of(list, row);
  const std::int64_t in_range = row - range.first_row;
  const std::int64_t up = list.gated ? 2 * list.ffn : list.ffn;
  const std::byte* gate = range.h + in_range * up * element_size(list.h);
  const std::byte* linear = gate + list.ffn * element_size(list.h);  // of gated experts
  const std::byte* out_gradient =
      range.out_gradient + in_range * list.ffn * element_size(list.out_gradient);
  std::byte* result =
      range.result + in_range * (list.gradient ? up : list.ffn) * element_size(list.result);
  std::byte* linear_gradient = result + list.ffn * element_size(list.result);
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.y) * threads * elements_per_thread;
  std::int64_t f =
      (static_cast<std::int64_t>(blockIdx.y) * threads + threadIdx.x) * elements_per_thread;
  for (; f < list.ffn; f += stride) {
    const int count =
        list.ffn - f < elements_per_thread ? static_cast<int>(list.ffn - f) : elements_per_thread;
    float g[elements_per_thread], u[elements_per_thread], dy[elements_per_thread];
    float first[elements_per_thread], second[elements_per_thread];
    load(gate, list.h, f, count, g);
    if (list.gated) load(linear, list.h, f, count, u);
    if (list.gradient) load(out_gradient, list.out_gradient, f, count, dy);
#pragma unroll
    for (int i = 0; i < elements_per_thread; ++i) {
      const float sigmoid = 1.0f / (1.0f + expf(-g[i]));
      const float factor = list.gated ? u[i] : 1.0f;
      if (list.gradient) {
        first[i] = dy[i] * (sigmoid * (1.0f + g[i] * (1.0f - sigmoid))) * factor;
        second[i] = dy[i] * g[i] * sigmoid;
      } else {
        first[i] = g[i] / (1.0f + expf(-g[i])) * factor;
      }
    }
    store(result, list.result, f, count, first);
    if (list.gradient && list.gated) store(linear_gradient, list.result, f, count, second);
  }
}

}  // namespace

void launch_activation(const ActivationList& list, cudaStream_t stream) {
  if (list.rows == 0 || list.ffn == 0) return;
  const std::int64_t parts =
      (list.ffn + threads * elements_per_thread - 1) / (threads * elements_per_thread);
  const dim3 grid(static_cast<unsigned>(list.rows),
                  static_cast<unsigned>(std::min<std::int64_t>(parts, 65535)));
  activation<<<grid, threads, 0, stream>>>(list);
  check(cudaGetLastError());
}

}  // namespace moesim::cuda
