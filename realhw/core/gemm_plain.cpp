// SPDX-License-Identifier: Apache-2.0
// The products by plain loops, for machines without OpenBLAS: right, and slow.
#include <algorithm>

#include "realhw/core/gemm.h"

namespace moesim {
namespace {

/// c[n] += x y[n].
void add_row(std::int64_t n, float x, const float* y, float* c) {
  for (std::int64_t j = 0; j < n; ++j) c[j] += x * y[j];
}

}  // namespace

void multiply(std::int64_t m, std::int64_t n, std::int64_t k, const float* a, const float* b,
              float* c) {
  std::fill(c, c + m * n, 0.0f);
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t l = 0; l < k; ++l) add_row(n, a[i * k + l], b + l * n, c + i * n);
  }
}

void multiply_transposed(std::int64_t m, std::int64_t n, std::int64_t k, const float* a,
                         const float* b, float* c) {
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      float sum = 0;
      for (std::int64_t l = 0; l < k; ++l) sum += a[i * k + l] * b[j * k + l];
      c[i * n + j] = sum;
    }
  }
}

void add_outer(std::int64_t m, std::int64_t n, std::int64_t k, const float* a, const float* b,
               float* c) {
  for (std::int64_t l = 0; l < k; ++l) {
    for (std::int64_t i = 0; i < m; ++i) add_row(n, a[l * m + i], b + l * n, c + i * n);
  }
}

void set_gemm_threads(int) {}

std::string gemm_library() { return "plain loops"; }

}  // namespace moesim
