// SPDX-License-Identifier: Apache-2.0
// How long a GPU takes for a kernel: what models/gpu/*.yaml describes.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/model/host_model.h"
#include "sim/model/kernel_tables.h"
#include "sim/model/roofline.h"
#include "sim/model/training_traffic.h"

namespace moesim {

/// Factors of contention, at least 1: how many times as long work takes while the other kind runs
/// on the same GPU (both need its memory and multiprocessors).
struct Overlap {
  double compute = 1;        // kernels of the compute stream while the GPU is in an exchange
  double communication = 1;  // exchanges while one of their GPUs runs a kernel of that stream
  bool any() const { return compute > 1 || communication > 1; }
};

/// What takes most of a kernel's time.
enum class KernelBound { launch, compute, memory };
const char* name_of(KernelBound bound);

/// A kernel's time is from measured tables (KernelTables) if they cover it, else from a fitted
/// roofline, else from one roofline of all kernels:
///
///   launch_overhead + max(flops / (peak x gemm_efficiency), bytes / (memory_bandwidth x
///   memory_efficiency))
struct GpuModel {
  std::string name;
  std::string description;
  std::string source;
  std::string serves_as;  // the GPU model of the same GPU whose kernels engines have; empty: itself
  std::string die;  // GPUs with the same die keep the same part of their rates; empty: unstated
  Bytes memory;     // for tensors: without what CUDA, communicators and the allocator take
  BytesPerSecond memory_bandwidth;
  std::map<DataType, FlopsPerSecond> peak;  // dense: without sparsity
  double gemm_efficiency = 1;               // the part of the peak that large kernels reach
  double memory_efficiency = 1;             // the part of the bandwidth
  // For kernels that gather, spread or add up rows, and for the loss; empty: memory_efficiency.
  std::optional<double> rows_efficiency, loss_efficiency;
  Seconds launch_overhead;  // per kernel
  /// By the type of products: the rate of kernels in a training step / their rate if measured by
  /// themselves. Kernels without products count as bf16, the type of their rows.
  std::map<DataType, double> training;
  int sms = 0;  // multiprocessors; 0: unstated
  KernelTables tables;
  FittedKernels fitted;
  /// The GPU whose kernels were measured ("h100"), if it is another one.
  std::string measured_gpu;
  Overlap overlap;
  TrainingTraffic training_traffic;  // set for iterations by their precision; not a key of the file
  HostModel host;
  double host_slowdown = 1;  // of assumed times of a host on this GPU's CPU
  double host_time = 1;      // time of host work / the time that plans state

  /// Zero for an empty kernel. `op` is what the kernel is for, because tables may be of one op.
  /// Throws Error if the GPU has neither a table nor a peak for the kernel's type.
  Seconds time(const Kernel& kernel, const OpType& op = {}) const;
  KernelBound bound(const Kernel& kernel, const OpType& op = {}) const;

  /// Whether its products, those in bf16 too, and its attention have tables or fits, and not only
  /// one efficiency.
  bool has_measured_kernels() const;
  /// "fitted", "fitted, those of b200", "tables", "partly fitted", "data sheet".
  std::string grounds() const;

 private:
  double kept_in_training(DataType type) const;
  FlopsPerSecond rate(DataType type) const;
  BytesPerSecond memory_rate(OpKind kind) const;
  KernelTime roofline_time(const Kernel& kernel, const OpType& op) const;
};

/// One model per rank; GPUs of one kind share it.
using GpuModels = std::vector<std::shared_ptr<const GpuModel>>;

GpuModel read_gpu_model(const std::string& path, const std::vector<Override>& overrides = {});
GpuModel parse_gpu_model(const std::string& text, const std::string& name,
                         const std::vector<Override>& overrides = {});

}  // namespace moesim
