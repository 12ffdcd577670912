// SPDX-License-Identifier: Apache-2.0
// CUDA's errors as exceptions.
#pragma once

#include <cuda_runtime_api.h>

namespace moesim::cuda {

/// Throws std::runtime_error with CUDA's own words unless `code` is success.
void check(cudaError_t code, const char* caller = __builtin_FUNCTION());

}  // namespace moesim::cuda
