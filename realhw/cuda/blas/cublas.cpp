// SPDX-License-Identifier: Apache-2.0
#include "realhw/cuda/blas/cublas.h"

#include <fmt/format.h>

#include <stdexcept>

namespace moesim::cuda {

Cublas::Cublas()
    : library_({fmt::format("libcublas.so.{}", CUBLAS_VER_MAJOR), "MOESIM_CUBLAS", "CUBLAS_HOME",
                CUBLAS_VER_MAJOR >= 13 ? fmt::format("cu{}", CUBLAS_VER_MAJOR) : "cublas"}) {
  library_.find("cublasCreate_v2", create);
  library_.find("cublasDestroy_v2", destroy);
  library_.find("cublasSetStream_v2", set_stream);
  library_.find("cublasSetWorkspace_v2", set_workspace);
  library_.find("cublasSetMathMode", set_math_mode);
  library_.find("cublasGetStatusString", status_string);
  library_.find("cublasGemmEx", gemm);
  library_.find_optional("cublasGemmGroupedBatchedEx", gemm_grouped);
}

void Cublas::check(cublasStatus_t status, const char* caller) const {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw std::runtime_error(fmt::format("cuBLAS, called in {}: {}", caller, status_string(status)));
}

const Cublas& cublas_library() {
  static const Cublas& cublas = *new Cublas();
  return cublas;
}

}  // namespace moesim::cuda
