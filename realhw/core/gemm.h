// SPDX-License-Identifier: Apache-2.0
// Row-major float32 matrix products.
#pragma once

#include <cstdint>
#include <string>

namespace moesim {

/// c[m x n] = a[m x k] b[k x n].
void multiply(std::int64_t m, std::int64_t n, std::int64_t k, const float* a, const float* b,
              float* c);
/// c[m x n] = a[m x k] b^T, b[n x k].
void multiply_transposed(std::int64_t m, std::int64_t n, std::int64_t k, const float* a,
                         const float* b, float* c);
/// c[m x n] += a^T b, a[k x m], b[k x n].
void add_outer(std::int64_t m, std::int64_t n, std::int64_t k, const float* a, const float* b,
               float* c);
/// Products use this many threads of the process; the default is 1.
void set_gemm_threads(int threads);
/// The library in use, with its version: "OpenBLAS 0.3.21 ...".
std::string gemm_library();

}  // namespace moesim
