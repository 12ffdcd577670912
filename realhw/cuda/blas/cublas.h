// SPDX-License-Identifier: Apache-2.0
// The little of cuBLAS that we use, loaded when it is needed.
#pragma once

#include <cublas_v2.h>

#include "realhw/cuda/shared_library.h"

namespace moesim::cuda {

/// Functions of the library, under their own names.
struct Cublas {
  /// Throws std::runtime_error when it is not there or too old.
  Cublas();
  /// Throws std::runtime_error with cuBLAS' own words unless `status` is success.
  void check(cublasStatus_t status, const char* caller = __builtin_FUNCTION()) const;
  const std::string& path() const { return library_.path(); }

 private:
  SharedLibrary library_;

 public:
  cublasStatus_t (*create)(cublasHandle_t*) = nullptr;
  cublasStatus_t (*destroy)(cublasHandle_t) = nullptr;
  cublasStatus_t (*set_stream)(cublasHandle_t, cudaStream_t) = nullptr;
  cublasStatus_t (*set_workspace)(cublasHandle_t, void*, std::size_t) = nullptr;
  cublasStatus_t (*set_math_mode)(cublasHandle_t, cublasMath_t) = nullptr;
  const char* (*status_string)(cublasStatus_t) = nullptr;
  cublasStatus_t (*gemm)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int m, int n, int k,
                         const void* alpha, const void* a, cudaDataType a_type, int lda,
                         const void* b, cudaDataType b_type, int ldb, const void* beta, void* c,
                         cudaDataType c_type, int ldc, cublasComputeType_t,
                         cublasGemmAlgo_t) = nullptr;
  /// From cuBLAS 12.5 on, null before. Arrays are on the host, those of matrices on the device.
  cublasStatus_t (*gemm_grouped)(cublasHandle_t, const cublasOperation_t*, const cublasOperation_t*,
                                 const int* m, const int* n, const int* k, const void* alpha,
                                 const void* const* a, cudaDataType a_type, const int* lda,
                                 const void* const* b, cudaDataType b_type, const int* ldb,
                                 const void* beta, void* const* c, cudaDataType c_type,
                                 const int* ldc, int group_count, const int* group_size,
                                 cublasComputeType_t) = nullptr;
};

/// That of the process, loaded at the first call and never closed: graphs hold its kernels, and
/// loading it takes a tenth of a second. Throws as the constructor does.
const Cublas& cublas_library();

}  // namespace moesim::cuda
