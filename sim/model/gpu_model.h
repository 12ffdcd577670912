// SPDX-License-Identifier: Apache-2.0
// How long a GPU takes for a kernel: what models/gpu/*.yaml describes.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "sim/model/kernel_tables.h"

namespace moesim {

/// Factors of contention, at least 1: how many times as long work takes while the other kind runs
/// on the same GPU (both need its memory and multiprocessors).
struct Overlap {
  double compute = 1;        // kernels of the compute stream while the GPU is in an exchange
  double communication = 1;  // exchanges while one of their GPUs runs such a kernel
  bool any() const { return compute > 1 || communication > 1; }
};

/// Measured tables (KernelTables), and for kernels that they do not cover the roofline (Williams et
/// al., CACM 52(4), 2009):
///
///   launch_overhead + max(flops / (peak x gemm_efficiency), bytes / (memory_bandwidth x
///   memory_efficiency))
struct GpuModel {
  std::string name;
  std::string description;
  std::string source;
  Bytes memory;
  BytesPerSecond memory_bandwidth;
  std::map<DataType, FlopsPerSecond> peak;  // dense: without sparsity
  double gemm_efficiency = 1;               // part of the peak that large kernels reach
  double memory_efficiency = 1;             // the same of the bandwidth
  Seconds launch_overhead;                  // per kernel
  KernelTables tables;
  Overlap overlap;

  /// Zero for an empty kernel. `op` is what the kernel is for: tables may be of single ops. Throws
  /// Error when the GPU has neither a table nor a peak for the kernel's type.
  Seconds time(const Kernel& kernel, const OpType& op = {}) const;
};

/// One model per rank; GPUs of one kind share it.
using GpuModels = std::vector<std::shared_ptr<const GpuModel>>;

GpuModel read_gpu_model(const std::string& path, const std::vector<Override>& overrides = {});
GpuModel parse_gpu_model(const std::string& text, const std::string& name,
                         const std::vector<Override>& overrides = {});

}  // namespace moesim
