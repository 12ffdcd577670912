// SPDX-License-Identifier: Apache-2.0
// An NVIDIA GPU as a device.
#pragma once

#include <memory>
#include <string>

#include "realhw/cuda/gpu_device.h"

namespace moesim {

struct CudaOptions {
  /// How the groups of a product run: `grouped` in one call of cuBLAS, which takes one type for all
  /// matrices; `one_by_one` in a call each; `on_streams` so, spread over CUDA streams next to the
  /// plan's; `automatic` grouped if that can be.
  enum class Gemm { automatic, grouped, one_by_one, on_streams };
  Gemm gemm = Gemm::automatic;
};

/// GPUs that this process sees.
struct FoundGpus {
  int count = 0;
  /// "there is no driver (libcuda.so.1)", "the driver is of CUDA 12.2, this program of 13.0", or
  /// CUDA's own words; empty if there are GPUs.
  std::string why_none;
};
FoundGpus find_gpus();

/// The `index`-th GPU of the process. Throws std::runtime_error when it cannot be used.
std::unique_ptr<GpuDevice> make_cuda_device(int index, const CudaOptions& options = {});

}  // namespace moesim
