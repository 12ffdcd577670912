// SPDX-License-Identifier: Apache-2.0
// Kernels of the dense parts of a model and of its training, in float32: what iterations compute in
// addition to the experts (realhw/program/dense_calls.h). Sums have one order, so that a run gives
// the same numbers every time. Right rather than fast: products are cuBLAS'. Contracts of launches
// are those of kernels.h.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "realhw/core/dense_math.h"

namespace moesim::cuda {

/// As RowNorm::Range.
struct NormRange {
  std::int64_t rows = 0, stride = 0;
  const float *x = nullptr, *gain = nullptr, *dout = nullptr;
  float *out = nullptr, *dgain = nullptr;  // out: of x, or the gradient by x
};
struct NormList {
  std::int64_t width = 0, most_rows = 0;  // of a range
  int ranges = 0;
  bool gradient = false;
  const NormRange* range = nullptr;
};
void launch_norm(const NormList& list, cudaStream_t stream);

struct RotaryRows {
  HeadShape heads;
  std::int64_t rows = 0, sequence = 0;
  int way = 1;
  const float* from = nullptr;
  float* to = nullptr;
};
void launch_rotary(const RotaryRows& rows, cudaStream_t stream);

/// Of sequences that fit into shared memory.
inline constexpr std::int64_t longest_attended = 11 << 10;
struct AttentionRows {
  HeadShape heads;
  std::int64_t sequences = 0, sequence = 0;
  const float *rows = nullptr, *dout = nullptr;
  float *out = nullptr, *drows = nullptr;
  /// Of the gradient, per row and head: logarithm of the sum of a query's exponentials, and the
  /// mean of the gradients by its shares.
  float2* sums = nullptr;
};
void launch_attention(const AttentionRows& rows, cudaStream_t stream);
void launch_attention_gradient(const AttentionRows& rows, cudaStream_t stream);

struct CrossEntropyRows {
  std::int64_t rows = 0, words = 0;
  float weight = 1;
  const std::int64_t* labels = nullptr;
  const float* logits = nullptr;
  float *shares = nullptr, *losses = nullptr, *dlogits = nullptr;
};
void launch_cross_entropy(const CrossEntropyRows& rows, cudaStream_t stream);
void launch_cross_entropy_gradient(const CrossEntropyRows& rows, cudaStream_t stream);

/// As DividedEntropy.
struct DividedEntropyRows {
  std::int64_t rows = 0, words = 0, parts = 0;
  const std::int64_t* labels = nullptr;
  const float* logits = nullptr;
  float *sums = nullptr, *shares = nullptr, *losses = nullptr;
};
void launch_entropy_of_part(const DividedEntropyRows& rows, cudaStream_t stream);
void launch_joined_entropy(const DividedEntropyRows& rows, cudaStream_t stream);

/// Element i of `to` has those of from[first] to from[end] added, in order.
struct AddedRange {
  float* to = nullptr;
  std::int64_t elements = 0;
  std::uint32_t first = 0, end = 0;
};
struct AddedList {
  std::int64_t most_elements = 0;  // of a range
  int ranges = 0;
  const AddedRange* range = nullptr;
  const float* const* from = nullptr;
};
void launch_add(const AddedList& list, cudaStream_t stream);

/// As AdamUpdate::Range, and the rule's numbers as `adam` uses them.
struct AdamRange {
  const float* gradients = nullptr;
  float *first = nullptr, *second = nullptr, *weights = nullptr;
  std::int64_t elements = 0;
};
struct AdamList {
  std::int64_t most_elements = 0;
  int ranges = 0;
  const AdamRange* range = nullptr;
  float first_decay = 0, second_decay = 0, rate = 0, second_scale = 0, epsilon = 0;
};
void launch_adam(const AdamList& list, cudaStream_t stream);

}  // namespace moesim::cuda
