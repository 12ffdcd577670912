// SPDX-License-Identifier: Apache-2.0
// Row-major products in double precision, as plain as can be: the reference's own.
#pragma once

#include <cstdint>
#include <vector>

namespace moesim {

using Doubles = std::vector<double>;

/// c[m x n] += a[m x k] b[k x n].
inline void add_product(std::int64_t m, std::int64_t n, std::int64_t k, const double* a,
                        const double* b, double* c) {
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < k; ++j) {
      for (std::int64_t x = 0; x < n; ++x) c[i * n + x] += a[i * k + j] * b[j * n + x];
    }
  }
}

/// c[m x n] += a[m x k] b^T, b[n x k].
inline void add_product_transposed(std::int64_t m, std::int64_t n, std::int64_t k, const double* a,
                                   const double* b, double* c) {
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t x = 0; x < n; ++x) {
      double sum = 0;
      for (std::int64_t j = 0; j < k; ++j) sum += a[i * k + j] * b[x * k + j];
      c[i * n + x] += sum;
    }
  }
}

/// c[k x n] += a^T b, a[m x k], b[m x n].
inline void add_outer_product(std::int64_t m, std::int64_t n, std::int64_t k, const double* a,
                              const double* b, double* c) {
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < k; ++j) {
      for (std::int64_t x = 0; x < n; ++x) c[j * n + x] += a[i * k + j] * b[i * n + x];
    }
  }
}

}  // namespace moesim
