// SPDX-License-Identifier: Apache-2.0
#include "realhw/core/gemm.h"

#include <cblas.h>

namespace moesim {
namespace {

void product(CBLAS_TRANSPOSE a_turned, CBLAS_TRANSPOSE b_turned, std::int64_t m, std::int64_t n,
             std::int64_t k, const float* a, const float* b, float beta, float* c) {
  if (m == 0 || n == 0) return;
  const auto width = [](std::int64_t w) { return static_cast<blasint>(w); };
  cblas_sgemm(CblasRowMajor, a_turned, b_turned, width(m), width(n), width(k), 1.0f, a,
              width(a_turned == CblasNoTrans ? k : m), b, width(b_turned == CblasNoTrans ? n : k),
              beta, c, width(n));
}

}  // namespace

void multiply(std::int64_t m, std::int64_t n, std::int64_t k, const float* a, const float* b,
              float* c) {
  product(CblasNoTrans, CblasNoTrans, m, n, k, a, b, 0.0f, c);
}

void multiply_transposed(std::int64_t m, std::int64_t n, std::int64_t k, const float* a,
                         const float* b, float* c) {
  product(CblasNoTrans, CblasTrans, m, n, k, a, b, 0.0f, c);
}

void add_outer(std::int64_t m, std::int64_t n, std::int64_t k, const float* a, const float* b,
               float* c) {
  product(CblasTrans, CblasNoTrans, m, n, k, a, b, 1.0f, c);
}

void set_gemm_threads(int threads) { openblas_set_num_threads(threads); }

std::string gemm_library() { return openblas_get_config(); }

}  // namespace moesim
