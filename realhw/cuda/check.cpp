// SPDX-License-Identifier: Apache-2.0
#include "realhw/cuda/check.h"

#include <fmt/format.h>

#include <stdexcept>

namespace moesim::cuda {

void check(cudaError_t code, const char* caller) {
  if (code == cudaSuccess) return;
  throw std::runtime_error(fmt::format("CUDA, called in {}: {} ({})", caller,
                                       cudaGetErrorString(code), cudaGetErrorName(code)));
}

}  // namespace moesim::cuda
