// SPDX-License-Identifier: Apache-2.0
// Rooflines (Williams et al., CACM 52(4), 2009) with what real kernels lose: in the corner, in
// short sums, in groups that do not fill their tiles.
#pragma once

#include <limits>
#include <map>
#include <string>

#include "sim/base/yaml.h"
#include "sim/model/kernel.h"

namespace moesim {

/// What a kernel's time consists of:
///
///   launch + (compute^sharpness + memory^sharpness)^(1 / sharpness)
struct KernelTime {
  Seconds launch, compute, memory;
  Seconds total;
};

/// The times of one kind of kernels in one data type:
///
///   compute = flop x slowdowns / (peak x efficiency), memory time = bytes / (bandwidth x memory)
///
/// A slowdown is 1 + half / length: at a length of `half` a kernel reaches half of its efficiency.
struct Roofline {
  Seconds launch;
  double efficiency = 1;  // part of the peak that large kernels reach
  double memory = 1;      // the same of the bandwidth
  double sharpness = std::numeric_limits<double>::infinity();  // of the corner; the larger of both
  // GEMMs:
  double half_sum = 0;    // by the length of their sums: k, or the rows for weight gradients
  double group_rows = 0;  // more that each group computes if several have rows; in a wave each
                          // tile, unless rows are rounded up to tiles; not of weight gradients
  double wgrad = 1;       // efficiency of weight gradients / of other products
  // Attention:
  double half_keys = 0;     // by the keys per query; decode's memory time has the slowdown, too
  double query_passes = 0;  // decode: how often queries and results pass through memory besides,
                            // in kernels around it (MLA: products by W_UK, joins, casts)
  double half_width = 0;    // by the mean of both widths per head
  double uneven = 1;        // efficiency if queries and values differ in width (MLA) / elsewhere
  double backward = 1;      // efficiency of the backward pass / of the forward pass

  /// For a peak of the kernel's type and a bandwidth of the memory; `more`: bytes in addition to
  /// those of its operands.
  KernelTime time(const Kernel& kernel, const OpType& op, FlopsPerSecond peak,
                  BytesPerSecond bandwidth, Bytes more = Bytes(0)) const;
  /// The same for a wave: its part, by tiles, of the whole kernel, whose groups have rows rounded
  /// up to Wave::fill (not of weight gradients). The launch counts if it starts the kernel.
  KernelTime time_of_wave(const GroupedGemm& gemm, const OpType& op, FlopsPerSecond peak,
                          BytesPerSecond bandwidth) const;
};

/// The entry of a type; of fp16 that of bf16 unless it has its own: tensor cores multiply both at
/// one rate, by the same kernels.
template <class ByType>
auto find_type(const ByType& by_type, DataType type) {
  const auto own = by_type.find(type);
  return own == by_type.end() && type == DataType::fp16 ? by_type.find(DataType::bf16) : own;
}

/// Rooflines of a GPU that were fitted to measured kernels.
struct FittedKernels {
  using ByType = std::map<DataType, Roofline>;
  ByType gemm;          // of one group, and of many if there is no other
  ByType grouped_gemm;  // of several groups
  ByType tiles;         // of waves: fitted to rows that are rounded up to tiles already
  ByType attention;
  ByType decode;         // attention of few queries per sequence to keys in a cache
  ByType latent_decode;  // the same with latent keys (MLA)
  /// By the engine's name: what it has in place of `grouped_gemm`, unless DeepEP hands it its rows.
  std::map<std::string, ByType> engine_experts;

  FittedKernels of_engine(const std::string& name) const;
  /// Null if nothing that fits the kernel's kind and type was fitted.
  const Roofline* find(const Kernel& kernel) const;
};

/// The key `kernels` of a GPU model.
FittedKernels read_fitted_kernels(const YamlMap& map);

}  // namespace moesim
