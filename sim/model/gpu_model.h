// SPDX-License-Identifier: Apache-2.0
// A GPU's compute cost: what models/gpu/*.yaml describes.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sim/model/kernel_tables.h"

namespace moesim {

/// How many times as long work takes while the other kind runs on the GPU; at least 1.
struct Overlap {
  double compute = 1;        // kernels of the compute lane while the GPU is in an exchange
  double communication = 1;  // exchanges while one of their GPUs runs such a kernel
  bool any() const { return compute > 1 || communication > 1; }
};

/// Measured tables (KernelTables), and for kernels that they do not cover the roofline: time =
/// launch + max(flops / (peak x gemm efficiency), bytes / (bandwidth x memory efficiency)).
/// Williams et al., CACM 52(4), 2009.
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
  KernelTables tables;
  Overlap overlap;

  /// Zero for an empty kernel; `op` is the name that a plan gives it. Throws Error when the GPU has
  /// neither a table nor a peak for the kernel's type.
  Seconds time(const Kernel& kernel, std::string_view op = {}) const;
};

/// One model per rank; GPUs of one kind share it.
using GpuModels = std::vector<std::shared_ptr<const GpuModel>>;

GpuModel read_gpu_model(const std::string& path, const std::vector<Override>& overrides = {});
GpuModel parse_gpu_model(const std::string& text, const std::string& name,
                         const std::vector<Override>& overrides = {});

}  // namespace moesim
