// SPDX-License-Identifier: Apache-2.0
// What needs the sums of whole rows: norms, attention, cross entropy.
#include <algorithm>

#include "realhw/cuda/check.h"
#include "realhw/cuda/kernels/dense.h"

namespace moesim::cuda {
namespace {

constexpr int threads = 128;

struct Sum {
  __device__ float operator()(float a, float b) const { return a + b; }
};
struct Largest {
  __device__ float operator()(float a, float b) const { return a > b ? a : b; }
};

/// Over what the threads of the block give, on all of them.
template <class Join>
__device__ float over_block(float mine, Join join) {
  __shared__ float given[threads];
  __syncthreads();  // of the call before, all have taken the result
  given[threadIdx.x] = mine;
  __syncthreads();
  for (unsigned half = threads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) {
      given[threadIdx.x] = join(given[threadIdx.x], given[threadIdx.x + half]);
    }
    __syncthreads();
  }
  return given[0];
}

__device__ float inverse_rms_of(std::int64_t width, const float* x) {
  float squares = 0;
  for (std::int64_t c = threadIdx.x; c < width; c += threads) squares += x[c] * x[c];
  const float mean = over_block(squares, Sum()) / static_cast<float>(width);
  return 1.0f / sqrtf(mean + static_cast<float>(norm_epsilon));
}

/// A block is a row of a range.
__global__ void __launch_bounds__(threads) norm(const NormList list) {
  const NormRange range = list.range[blockIdx.y];
  if (blockIdx.x >= range.rows) return;
  const std::int64_t first = blockIdx.x * range.stride;
  const float* x = range.x + first;
  float* out = range.out + first;
  const float scale = inverse_rms_of(list.width, x);
  if (!list.gradient) {
    for (std::int64_t c = threadIdx.x; c < list.width; c += threads) {
      out[c] = x[c] * scale * range.gain[c];
    }
    return;
  }
  const float* dout = range.dout + first;
  float part = 0;
  for (std::int64_t c = threadIdx.x; c < list.width; c += threads) {
    part += dout[c] * range.gain[c] * x[c];
  }
  const float along = over_block(part, Sum()) * scale * scale / static_cast<float>(list.width);
  for (std::int64_t c = threadIdx.x; c < list.width; c += threads) {
    out[c] = scale * (range.gain[c] * dout[c] - x[c] * along);
  }
}

/// A thread is a column of all rows: ranges may share a gain.
__global__ void __launch_bounds__(threads) norm_gain_gradient(const NormList list) {
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x;
  for (int r = 0; r < list.ranges; ++r) {
    const NormRange range = list.range[r];
    for (std::int64_t row = 0; row < range.rows; ++row) {
      const std::int64_t first = row * range.stride;
      const float scale = inverse_rms_of(list.width, range.x + first);
      if (column >= list.width) continue;
      range.dgain[column] += range.dout[first + column] * range.x[first + column] * scale;
    }
  }
}

/// Query `i` of a head, and its sequence.
struct Query {
  __device__ explicit Query(const AttentionRows& rows)
      : head(blockIdx.y), i(blockIdx.x % rows.sequence), first(blockIdx.x - i) {}
  std::int64_t head, i, first;  // first: row of the sequence
};

__device__ float dot(std::int64_t count, const float* a, const float* b) {
  float sum = 0;
  for (std::int64_t d = 0; d < count; ++d) sum += a[d] * b[d];
  return sum;
}

/// Into scores[0 to i], and the logarithm of the sum of their exponentials.
__device__ float score_all(const AttentionRows& rows, const Query& q, float* scores) {
  const std::int64_t width = rows.heads.width(), dim = rows.heads.dim;
  const float* query = rows.rows + (q.first + q.i) * width + q.head * dim;
  const float factor = 1.0f / sqrtf(static_cast<float>(dim));
  float most = -HUGE_VALF, sum = 0;
  for (std::int64_t j = threadIdx.x; j <= q.i; j += threads) {
    const float* key = rows.rows + (q.first + j) * width + rows.heads.key(q.head);
    scores[j] = dot(dim, query, key) * factor;
    most = fmaxf(most, scores[j]);
  }
  most = over_block(most, Largest());
  for (std::int64_t j = threadIdx.x; j <= q.i; j += threads) sum += expf(scores[j] - most);
  return most + logf(over_block(sum, Sum()));
}

/// A block is a query.
__global__ void __launch_bounds__(threads) attention(const AttentionRows rows) {
  extern __shared__ float scores[];
  const Query q(rows);
  const std::int64_t dim = rows.heads.dim;
  const float all = score_all(rows, q, scores);
  for (std::int64_t j = threadIdx.x; j <= q.i; j += threads) scores[j] = expf(scores[j] - all);
  __syncthreads();
  float* out = rows.out + (q.first + q.i) * rows.heads.out_width() + q.head * dim;
  for (std::int64_t d = threadIdx.x; d < dim; d += threads) {
    float sum = 0;
    for (std::int64_t j = 0; j <= q.i; ++j) {
      sum +=
          scores[j] * rows.rows[(q.first + j) * rows.heads.width() + rows.heads.value(q.head) + d];
    }
    out[d] = sum;
  }
}

/// The gradient by a query, a block each; and what those by keys and values need of it.
__global__ void __launch_bounds__(threads) query_gradient(const AttentionRows rows) {
  extern __shared__ float scores[];
  const Query q(rows);
  const std::int64_t dim = rows.heads.dim, width = rows.heads.width();
  const float factor = 1.0f / sqrtf(static_cast<float>(dim));
  const float* dout = rows.dout + (q.first + q.i) * rows.heads.out_width() + q.head * dim;
  const float all = score_all(rows, q, scores);
  float part = 0;
  for (std::int64_t j = threadIdx.x; j <= q.i; j += threads) {
    const float* value = rows.rows + (q.first + j) * width + rows.heads.value(q.head);
    part += expf(scores[j] - all) * dot(dim, dout, value);
  }
  const float mean = over_block(part, Sum());
  for (std::int64_t j = threadIdx.x; j <= q.i; j += threads) {
    const float* value = rows.rows + (q.first + j) * width + rows.heads.value(q.head);
    scores[j] = expf(scores[j] - all) * (dot(dim, dout, value) - mean) * factor;
  }
  __syncthreads();
  for (std::int64_t d = threadIdx.x; d < dim; d += threads) {
    float sum = 0;
    for (std::int64_t j = 0; j <= q.i; ++j) {
      sum += scores[j] * rows.rows[(q.first + j) * width + rows.heads.key(q.head) + d];
    }
    rows.drows[(q.first + q.i) * width + q.head * dim + d] = sum;
  }
  if (threadIdx.x == 0) {
    rows.sums[(q.first + q.i) * rows.heads.heads + q.head] = make_float2(all, mean);
  }
}

/// The gradient by a key and its value, a block each: threads take a query each in turn, then a
/// column each of what these add.
__global__ void __launch_bounds__(threads) key_gradient(const AttentionRows rows) {
  __shared__ float shares[threads];
  __shared__ float dscores[threads];
  const HeadShape& heads = rows.heads;
  const std::int64_t dim = heads.dim, width = heads.width(), j = blockIdx.x % rows.sequence;
  const std::int64_t first = blockIdx.x - j;
  const float factor = 1.0f / sqrtf(static_cast<float>(dim));
  const std::int64_t key = (first + j) * width + (heads.heads + blockIdx.y) * dim;
  const std::int64_t value = key + heads.kv_heads * dim;
  for (std::int64_t d = threadIdx.x; d < dim; d += threads) {
    rows.drows[key + d] = 0;
    rows.drows[value + d] = 0;
  }
  for (std::int64_t head = 0; head < heads.heads; ++head) {
    if (heads.key(head) != (heads.heads + blockIdx.y) * dim) continue;
    for (std::int64_t begin = j; begin < rows.sequence; begin += threads) {
      const std::int64_t i = begin + threadIdx.x;
      __syncthreads();
      if (i < rows.sequence) {
        const float2 sums = rows.sums[(first + i) * heads.heads + head];
        const float* query = rows.rows + (first + i) * width + head * dim;
        const float* dout = rows.dout + (first + i) * heads.out_width() + head * dim;
        const float share = expf(dot(dim, query, rows.rows + key) * factor - sums.x);
        shares[threadIdx.x] = share;
        dscores[threadIdx.x] = share * (dot(dim, dout, rows.rows + value) - sums.y) * factor;
      }
      __syncthreads();
      const std::int64_t end = rows.sequence - begin < threads ? rows.sequence - begin : threads;
      for (std::int64_t d = threadIdx.x; d < dim; d += threads) {
        float by_key = rows.drows[key + d], by_value = rows.drows[value + d];
        for (std::int64_t t = 0; t < end; ++t) {
          const std::int64_t row = first + begin + t;
          by_key += dscores[t] * rows.rows[row * width + head * dim + d];
          by_value += shares[t] * rows.dout[row * heads.out_width() + head * dim + d];
        }
        rows.drows[key + d] = by_key;
        rows.drows[value + d] = by_value;
      }
    }
  }
}

/// A block is a row.
__global__ void __launch_bounds__(threads) cross_entropy_rows(const CrossEntropyRows rows) {
  const float* logits = rows.logits + blockIdx.x * rows.words;
  float* shares = rows.shares + blockIdx.x * rows.words;
  float most = -HUGE_VALF, sum = 0;
  for (std::int64_t w = threadIdx.x; w < rows.words; w += threads) most = fmaxf(most, logits[w]);
  most = over_block(most, Largest());
  for (std::int64_t w = threadIdx.x; w < rows.words; w += threads) {
    shares[w] = expf(logits[w] - most);
    sum += shares[w];
  }
  sum = over_block(sum, Sum());
  for (std::int64_t w = threadIdx.x; w < rows.words; w += threads) shares[w] /= sum;
  if (threadIdx.x == 0) {
    rows.losses[blockIdx.x] = logf(sum) + most - logits[rows.labels[blockIdx.x]];
  }
}

__global__ void __launch_bounds__(threads) entropy_of_part_rows(const DividedEntropyRows rows) {
  const float* logits = rows.logits + blockIdx.x * rows.words;
  float most = -HUGE_VALF, sum = 0;
  for (std::int64_t w = threadIdx.x; w < rows.words; w += threads) most = fmaxf(most, logits[w]);
  most = over_block(most, Largest());
  for (std::int64_t w = threadIdx.x; w < rows.words; w += threads) sum += expf(logits[w] - most);
  sum = over_block(sum, Sum());
  if (threadIdx.x == 0) {
    float* sums = rows.sums + blockIdx.x * entropy_sums;
    const std::int64_t label = rows.labels[blockIdx.x];
    sums[0] = most;
    sums[1] = sum;
    sums[2] = label < 0 ? 0 : logits[label];
  }
}

std::size_t bytes_of_scores(const AttentionRows& rows) {
  constexpr std::size_t wide = 16;  // of the widest load: nvcc joins those of unrolled loops
  const std::size_t bytes = static_cast<std::size_t>(rows.sequence) * sizeof(float);
  return (bytes + wide - 1) / wide * wide;
}

dim3 grid_of(std::int64_t x, std::int64_t y) {
  return dim3(static_cast<unsigned>(x), static_cast<unsigned>(y));
}

}  // namespace

void launch_norm(const NormList& list, cudaStream_t stream) {
  if (list.most_rows == 0 || list.width == 0) return;
  norm<<<grid_of(list.most_rows, list.ranges), threads, 0, stream>>>(list);
  check(cudaGetLastError());
  if (!list.gradient) return;
  const dim3 columns = grid_of((list.width + threads - 1) / threads, 1);
  norm_gain_gradient<<<columns, threads, 0, stream>>>(list);
  check(cudaGetLastError());
}

void launch_attention(const AttentionRows& rows, cudaStream_t stream) {
  const std::int64_t queries = rows.sequences * rows.sequence;
  if (queries == 0) return;
  const dim3 grid = grid_of(queries, rows.heads.heads);
  attention<<<grid, threads, bytes_of_scores(rows), stream>>>(rows);
  check(cudaGetLastError());
}

void launch_attention_gradient(const AttentionRows& rows, cudaStream_t stream) {
  const std::int64_t queries = rows.sequences * rows.sequence;
  if (queries == 0) return;
  const dim3 grid = grid_of(queries, rows.heads.heads);
  query_gradient<<<grid, threads, bytes_of_scores(rows), stream>>>(rows);
  check(cudaGetLastError());
  key_gradient<<<grid_of(queries, rows.heads.kv_heads), threads, 0, stream>>>(rows);
  check(cudaGetLastError());
}

void launch_cross_entropy(const CrossEntropyRows& rows, cudaStream_t stream) {
  if (rows.rows == 0) return;
  cross_entropy_rows<<<grid_of(rows.rows, 1), threads, 0, stream>>>(rows);
  check(cudaGetLastError());
}

void launch_entropy_of_part(const DividedEntropyRows& rows, cudaStream_t stream) {
  if (rows.rows == 0) return;
  entropy_of_part_rows<<<grid_of(rows.rows, 1), threads, 0, stream>>>(rows);
  check(cudaGetLastError());
}

}  // namespace moesim::cuda
