// SPDX-License-Identifier: Apache-2.0
// The GPUs of this process.
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include "realhw/cuda/cuda_device.h"

namespace moesim {

int count_gpus() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

std::string why_no_gpus() {
  int count = 0, driver = 0;
  const cudaError_t code = cudaGetDeviceCount(&count);
  if (code == cudaSuccess && count > 0) return "";
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0) {
    return "there is no driver (libcuda.so.1)";
  }
  const auto version = [](int v) { return fmt::format("{}.{}", v / 1000, v % 1000 / 10); };
  if (code == cudaErrorInsufficientDriver) {
    return fmt::format("the driver is of CUDA {}, this program of {}", version(driver),
                       version(CUDART_VERSION));
  }
  return cudaGetErrorString(code == cudaSuccess ? cudaErrorNoDevice : code);
}

}  // namespace moesim
