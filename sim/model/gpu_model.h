// SPDX-License-Identifier: Apache-2.0
// A GPU's compute cost: what models/gpu/*.yaml describes.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "sim/model/kernel.h"

namespace moesim {

/// Roofline: time = launch + max(flops / (peak x gemm efficiency),
/// bytes / (bandwidth x memory efficiency)). Williams et al., CACM 52(4), 2009.
struct GpuModel {
  std::string name;
  std::string description;
  std::string source;
  Bytes memory;
  BytesPerSecond memory_bandwidth;
  std::map<DataType, FlopsPerSecond> peak;  // dense
  double gemm_efficiency = 1;
  double memory_efficiency = 1;
  Seconds launch_overhead;  // per kernel

  /// Zero for an empty kernel. Throws Error when the GPU has no peak for the kernel's type.
  Seconds time(const Kernel& kernel) const;
};

/// One model per rank; GPUs of one kind share it.
using GpuModels = std::vector<std::shared_ptr<const GpuModel>>;

GpuModel read_gpu_model(const std::string& path, const std::vector<Override>& overrides = {});
GpuModel parse_gpu_model(const std::string& text, const std::string& name,
                         const std::vector<Override>& overrides = {});

}  // namespace moesim
