// SPDX-License-Identifier: Apache-2.0
// The little of cuBLAS that we use, by loops, as a library that is loaded: column-major, products
// of whole rows and sums in float32. Ends the program for leading dimensions that are too small.
#include <cublas_v2.h>

#include <cstdio>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <utility>
#include <vector>

#include "realhw/core/row_codec.h"
#include "tests/realhw/emulated/calls.h"
#include "tests/realhw/emulated/watch.h"

namespace {

struct Matrix {
  const void* at = nullptr;
  cudaDataType type = CUDA_R_32F;
  int ld = 0;
  bool transposed = false;

  float get(std::int64_t row, std::int64_t column) const {
    const std::int64_t i = transposed ? row * ld + column : column * ld + row;
    if (type == CUDA_R_32F) return static_cast<const float*>(at)[i];
    return moesim::from_bfloat16(static_cast<const std::uint16_t*>(at)[i]);
  }
  /// Whether all of it is memory of the GPU.
  bool is_there(std::int64_t rows, std::int64_t columns) const {
    if (transposed) std::swap(rows, columns);
    const std::int64_t elements = rows == 0 || columns == 0 ? 0 : (columns - 1) * ld + rows;
    const std::int64_t size = type == CUDA_R_32F ? 4 : 2;
    return moesim::emulated::require_device(at, static_cast<std::size_t>(elements * size),
                                            "a product");
  }
};

struct Gemm {
  int m = 0, n = 0, k = 0;
  Matrix a, b, c;
  float beta = 0;

  void check() const {
    const auto needs = [](const Matrix& x, int rows, int columns) {
      return x.ld >= (x.transposed ? columns : rows) && x.ld > 0;
    };
    if (needs(a, m, k) && needs(b, k, n) && needs(c, m, n)) return;
    std::fprintf(stderr, "emulated cuBLAS: a leading dimension is too small\n");
    std::abort();
  }
  void run() const {
    if (!a.is_there(m, k) || !b.is_there(k, n) || !c.is_there(m, n)) return;
    std::vector<float> column(static_cast<std::size_t>(m));
    for (std::int64_t j = 0; j < n; ++j) {
      std::fill(column.begin(), column.end(), 0.0f);
      for (std::int64_t p = 0; p < k; ++p) {
        const float factor = b.get(p, j);
        for (std::int64_t i = 0; i < m; ++i)
          column[static_cast<std::size_t>(i)] += a.get(i, p) * factor;
      }
      for (std::int64_t i = 0; i < m; ++i) set(i, j, column[static_cast<std::size_t>(i)]);
    }
  }
  void set(std::int64_t i, std::int64_t j, float sum) const {
    if (beta != 0) sum += beta * c.get(i, j);
    auto* at = const_cast<void*>(c.at);
    if (c.type == CUDA_R_32F) {
      static_cast<float*>(at)[j * c.ld + i] = sum;
    } else {
      static_cast<std::uint16_t*>(at)[j * c.ld + i] = moesim::to_bfloat16(sum);
    }
  }
};

struct Handle {
  cudaStream_t stream = nullptr;
};

/// Whether the call fails as planned.
bool fails(const char* name = __builtin_FUNCTION()) {
  return moesim::emulated::enter(cudaErrorUnknown, name) != cudaSuccess;
}

/// Kept until the program ends: streams and graphs may run them after their handle is gone.
const std::vector<Gemm>* kept(std::vector<Gemm> gemms) {
  static std::mutex mutex;
  static std::deque<std::vector<Gemm>> all;
  const std::lock_guard guard(mutex);
  return &all.emplace_back(std::move(gemms));
}

cublasStatus_t queue(cublasHandle_t handle, std::vector<Gemm> gemms) {
  const auto run = [](void* all) {
    for (const Gemm& gemm : *static_cast<const std::vector<Gemm>*>(all)) gemm.run();
  };
  const cudaError_t put =
      cudaLaunchHostFunc(reinterpret_cast<Handle*>(handle)->stream, run,
                         const_cast<std::vector<Gemm>*>(kept(std::move(gemms))));
  return put == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

Gemm gemm_of(cublasOperation_t a_op, cublasOperation_t b_op, int m, int n, int k, Matrix a,
             Matrix b, Matrix c, const float* beta) {
  a.transposed = a_op == CUBLAS_OP_T;
  b.transposed = b_op == CUBLAS_OP_T;
  const Gemm gemm{m, n, k, a, b, c, *beta};
  gemm.check();
  return gemm;
}

}  // namespace

extern "C" {

cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
  if (fails()) return CUBLAS_STATUS_ALLOC_FAILED;
  *handle = reinterpret_cast<cublasHandle_t>(new Handle);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
  delete reinterpret_cast<Handle*>(handle);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
  if (fails()) return CUBLAS_STATUS_NOT_INITIALIZED;
  reinterpret_cast<Handle*>(handle)->stream = stream;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t, void*, std::size_t) {
  return fails() ? CUBLAS_STATUS_INVALID_VALUE : CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetMathMode(cublasHandle_t, cublasMath_t) {
  return fails() ? CUBLAS_STATUS_INVALID_VALUE : CUBLAS_STATUS_SUCCESS;
}
const char* cublasGetStatusString(cublasStatus_t) { return "an error of the emulated cuBLAS"; }

cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t a_op, cublasOperation_t b_op,
                            int m, int n, int k, const void*, const void* a, cudaDataType a_type,
                            int lda, const void* b, cudaDataType b_type, int ldb, const void* beta,
                            void* c, cudaDataType c_type, int ldc, cublasComputeType_t,
                            cublasGemmAlgo_t) {
  return queue(handle, {gemm_of(a_op, b_op, m, n, k, {a, a_type, lda}, {b, b_type, ldb},
                                {c, c_type, ldc}, static_cast<const float*>(beta))});
}

/// Lists of matrices are on the device: they are read when they are needed, on the stream. Emulated
/// memory may be read here, because no call of ours changes them.
cublasStatus_t cublasGemmGroupedBatchedEx(cublasHandle_t handle, const cublasOperation_t* a_op,
                                          const cublasOperation_t* b_op, const int* m, const int* n,
                                          const int* k, const void*, const void* const* a,
                                          cudaDataType a_type, const int* lda, const void* const* b,
                                          cudaDataType b_type, const int* ldb, const void* beta,
                                          void* const* c, cudaDataType c_type, const int* ldc,
                                          int count, const int*, cublasComputeType_t) {
  std::vector<Gemm> gemms;
  for (int g = 0; g < count; ++g) {
    const Matrix left{a[g], a_type, lda[g]}, right{b[g], b_type, ldb[g]}, out{c[g], c_type, ldc[g]};
    for (const Matrix& matrix : {left, right, out}) {
      const bool aligned = reinterpret_cast<std::uintptr_t>(matrix.at) % 16 == 0;
      if (matrix.type != CUDA_R_32F && (!aligned || matrix.ld % 8 != 0)) {
        return CUBLAS_STATUS_INVALID_VALUE;
      }
    }
    gemms.push_back(gemm_of(a_op[g], b_op[g], m[g], n[g], k[g], left, right, out,
                            static_cast<const float*>(beta) + g));
  }
  return queue(handle, std::move(gemms));
}

}  // extern "C"
