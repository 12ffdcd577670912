// SPDX-License-Identifier: Apache-2.0
// What is computed element by element.
#include <algorithm>

#include "realhw/cuda/check.h"
#include "realhw/cuda/kernels/dense.h"

namespace moesim::cuda {
namespace {

constexpr int threads = 256;
constexpr std::int64_t most_blocks = 1 << 12;

__device__ std::int64_t first_element() {
  return static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x;
}
__device__ std::int64_t element_stride() { return static_cast<std::int64_t>(gridDim.x) * threads; }

/// Blocks along x for the elements; y: ranges.
dim3 grid_of(std::int64_t elements, std::int64_t ranges) {
  const std::int64_t blocks = std::min((elements + threads - 1) / threads, most_blocks);
  return dim3(static_cast<unsigned>(blocks), static_cast<unsigned>(ranges));
}

/// Pairs (i, i + dim / 2) of a head, as rotate_head.
__global__ void __launch_bounds__(threads) rotary(const RotaryRows rows) {
  const std::int64_t dim = rows.heads.dim, half = dim / 2, width = rows.heads.width();
  const std::int64_t turned = (rows.heads.heads + rows.heads.kv_heads) * dim;
  for (std::int64_t e = first_element(); e < rows.rows * width; e += element_stride()) {
    const std::int64_t row = e / width, column = e % width, i = column % dim;
    if (column >= turned || i >= 2 * half) {
      rows.to[e] = rows.from[e];
    } else if (i < half) {
      const double speed = pow(10000.0, -2.0 * static_cast<double>(i) / static_cast<double>(dim));
      const double angle = static_cast<double>(row % rows.sequence) * speed * rows.way;
      const float cosine = static_cast<float>(cos(angle)), sine = static_cast<float>(sin(angle));
      const float a = rows.from[e], b = rows.from[e + half];
      rows.to[e] = a * cosine - b * sine;
      rows.to[e + half] = a * sine + b * cosine;
    }
  }
}

__global__ void __launch_bounds__(threads) cross_entropy_gradient(const CrossEntropyRows rows) {
  for (std::int64_t e = first_element(); e < rows.rows * rows.words; e += element_stride()) {
    const float own = e % rows.words == rows.labels[e / rows.words] ? 1.0f : 0.0f;
    rows.dlogits[e] = (rows.shares[e] - own) * rows.weight;
  }
}

/// Every thread joins the sums of its row by itself.
__global__ void __launch_bounds__(threads) joined_entropy(const DividedEntropyRows rows) {
  const std::int64_t stride = rows.rows * entropy_sums;
  for (std::int64_t e = first_element(); e < rows.rows * rows.words; e += element_stride()) {
    const std::int64_t row = e / rows.words;
    const float* sums = rows.sums + row * entropy_sums;
    float most = sums[0], sum = 0, label = 0;
    for (std::int64_t p = 1; p < rows.parts; ++p) most = fmaxf(most, sums[p * stride]);
    for (std::int64_t p = 0; p < rows.parts; ++p) {
      sum += sums[p * stride + 1] * expf(sums[p * stride] - most);
      label += sums[p * stride + 2];
    }
    rows.shares[e] = expf(rows.logits[e] - most) / sum;
    if (e % rows.words == 0) rows.losses[row] = logf(sum) + most - label;
  }
}

__global__ void __launch_bounds__(threads) add_up(const AddedList list) {
  const AddedRange range = list.range[blockIdx.y];
  for (std::int64_t e = first_element(); e < range.elements; e += element_stride()) {
    float sum = range.to[e];
    for (std::uint32_t t = range.first; t < range.end; ++t) sum += list.from[t][e];
    range.to[e] = sum;
  }
}

__global__ void __launch_bounds__(threads) adam_update(const AdamList list) {
  const AdamRange range = list.range[blockIdx.y];
  const float b1 = list.first_decay, b2 = list.second_decay;
  for (std::int64_t e = first_element(); e < range.elements; e += element_stride()) {
    const float gradient = range.gradients[e];
    const float first = b1 * range.first[e] + (1 - b1) * gradient;
    const float second = b2 * range.second[e] + (1 - b2) * gradient * gradient;
    range.first[e] = first;
    range.second[e] = second;
    range.weights[e] -= list.rate * first / (sqrtf(second * list.second_scale) + list.epsilon);
  }
}

}  // namespace

void launch_rotary(const RotaryRows& rows, cudaStream_t stream) {
  if (rows.rows == 0) return;
  rotary<<<grid_of(rows.rows * rows.heads.width(), 1), threads, 0, stream>>>(rows);
  check(cudaGetLastError());
}

void launch_cross_entropy_gradient(const CrossEntropyRows& rows, cudaStream_t stream) {
  if (rows.rows == 0) return;
  cross_entropy_gradient<<<grid_of(rows.rows * rows.words, 1), threads, 0, stream>>>(rows);
  check(cudaGetLastError());
}

void launch_joined_entropy(const DividedEntropyRows& rows, cudaStream_t stream) {
  if (rows.rows == 0) return;
  joined_entropy<<<grid_of(rows.rows * rows.words, 1), threads, 0, stream>>>(rows);
  check(cudaGetLastError());
}

void launch_add(const AddedList& list, cudaStream_t stream) {
  if (list.most_elements == 0) return;
  add_up<<<grid_of(list.most_elements, list.ranges), threads, 0, stream>>>(list);
  check(cudaGetLastError());
}

void launch_adam(const AdamList& list, cudaStream_t stream) {
  if (list.most_elements == 0) return;
  adam_update<<<grid_of(list.most_elements, list.ranges), threads, 0, stream>>>(list);
  check(cudaGetLastError());
}

}  // namespace moesim::cuda
