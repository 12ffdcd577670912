// SPDX-License-Identifier: Apache-2.0
// The GPUs of this process.
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include "realhw/cuda/cuda_device.h"

namespace moesim {
namespace {

std::string why_none(cudaError_t code) {
  int driver = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0) {
    return "there is no driver (libcuda.so.1)";
  }
  const auto version = [](int v) { return fmt::format("{}.{}", v / 1000, v % 1000 / 10); };
  if (code == cudaErrorInsufficientDriver) {
    return fmt::format("the driver supports CUDA {}, this program needs {}: update the driver",
                       version(driver), version(CUDART_VERSION));
  }
  return cudaGetErrorString(code == cudaSuccess ? cudaErrorNoDevice : code);
}

}  // namespace

FoundGpus find_gpus() {
  int count = 0;
  const cudaError_t code = cudaGetDeviceCount(&count);
  if (code == cudaSuccess && count > 0) return {count, ""};
  return {0, why_none(code)};
}

}  // namespace moesim
