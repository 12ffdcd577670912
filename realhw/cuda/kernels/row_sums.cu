// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "realhw/cuda/check.h"
#include "realhw/cuda/kernels/kernels.h"
#include "realhw/cuda/kernels/row_access.cuh"

namespace moesim::cuda {
namespace {

constexpr int threads = 128;
constexpr std::int64_t elements_per_block = 4 * threads * elements_per_thread;

/// Copies bytes by the blocks of one row, four loads of a thread in flight.
template <class T>
__device__ void copy_as(std::byte* __restrict__ to, const std::byte* __restrict__ from,
                        std::int64_t bytes) {
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.y) * threads + threadIdx.x;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.y) * threads;
  const std::int64_t count = bytes / static_cast<std::int64_t>(sizeof(T));
  T* out = reinterpret_cast<T*>(to);
  const T* in = reinterpret_cast<const T*>(from);
  std::int64_t i = first;
  for (; i + 3 * stride < count; i += 4 * stride) {
    const T a = in[i], b = in[i + stride], c = in[i + 2 * stride], d = in[i + 3 * stride];
    out[i] = a;
    out[i + stride] = b;
    out[i + 2 * stride] = c;
    out[i + 3 * stride] = d;
  }
  for (; i < count; i += stride) out[i] = in[i];
  const std::int64_t whole = count * static_cast<std::int64_t>(sizeof(T));
  for (i = whole + first; i < bytes; i += stride) to[i] = from[i];
}

__device__ void copy_row(std::byte* to, const std::byte* from, std::int64_t bytes) {
  const auto places = reinterpret_cast<std::uintptr_t>(to) | reinterpret_cast<std::uintptr_t>(from);
  if (places % 16 == 0) {
    copy_as<uint4>(to, from, bytes);
  } else if (places % 4 == 0) {
    copy_as<std::uint32_t>(to, from, bytes);
  } else {
    copy_as<std::uint8_t>(to, from, bytes);
  }
}

/// Not fused: as on CPUs.
__device__ void add(float weight, const float (&x)[elements_per_thread],
                    float (&sum)[elements_per_thread]) {
#pragma unroll
  for (int i = 0; i < elements_per_thread; ++i) {
    sum[i] = __fadd_rn(sum[i], __fmul_rn(weight, x[i]));
  }
}

/// A block is one row, or every gridDim.y-th part of one.
__global__ void __launch_bounds__(threads) row_sums(const RowSumsList list) {
  std::byte* to = list.to[blockIdx.x];
  const std::uint32_t begin = list.first[blockIdx.x], end = list.first[blockIdx.x + 1];
  if (end - begin == 1) {
    const RowTerm term = list.terms[begin];
    if (term.weight == 1.0f && term.format == list.format) {
      copy_row(to, term.row, list.width * element_size(list.format));
      return;
    }
  }
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.y) * threads * elements_per_thread;
  std::int64_t column =
      (static_cast<std::int64_t>(blockIdx.y) * threads + threadIdx.x) * elements_per_thread;
  for (; column < list.width; column += stride) {
    const int count = list.width - column < elements_per_thread
                          ? static_cast<int>(list.width - column)
                          : elements_per_thread;
    float sum[elements_per_thread] = {};
    std::uint32_t t = begin;
    for (; t + 1 < end; t += 2) {  // two rows in flight
      const RowTerm one = list.terms[t], two = list.terms[t + 1];
      float x[elements_per_thread], y[elements_per_thread];
      load(one.row, one.format, column, count, x);
      load(two.row, two.format, column, count, y);
      add(one.weight, x, sum);
      add(two.weight, y, sum);
    }
    if (t < end) {
      const RowTerm last = list.terms[t];
      float x[elements_per_thread];
      load(last.row, last.format, column, count, x);
      add(last.weight, x, sum);
    }
    store(to, list.format, column, count, sum);
  }
}

}  // namespace

void launch_row_sums(const RowSumsList& list, cudaStream_t stream) {
  if (list.rows == 0 || list.width == 0) return;
  const std::int64_t parts = (list.width + elements_per_block - 1) / elements_per_block;
  const dim3 grid(static_cast<unsigned>(list.rows),
                  static_cast<unsigned>(std::min<std::int64_t>(parts, 65535)));
  row_sums<<<grid, threads, 0, stream>>>(list);
  check(cudaGetLastError());
}

}  // namespace moesim::cuda
