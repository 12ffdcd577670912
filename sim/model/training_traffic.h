// SPDX-License-Identifier: Apache-2.0
// What the kernels of a training iteration move in addition to their operands.
#pragma once

#include "sim/model/kernel.h"

namespace moesim {

/// Zero: nothing is added, as for the kernels of a step.
struct TrainingTraffic {
  /// Bytes per weight that a weight gradient reads and writes, in place of one write in its own
  /// type: 8 if it adds to a main gradient in fp32 (Megatron's gradient accumulation fusion).
  double per_weight = 0;
  /// Bytes per element to quantize what an 8-bit product multiplies with weights or gradients,
  /// before the product; and the kernels for it.
  double per_cast = 0;
  int cast_kernels = 0;
  /// Launches of every such product, of all its groups together, that lay out scales for it.
  int scale_kernels = 0;
  /// Kernels are those of training software. Each kernel of an op that is several (docs/host.md)
  /// takes its own launch on the GPU. Queries, keys and values are quantized before quantized
  /// scores of attention, and backward the gradient of the result.
  bool of_software = false;
  /// Products of experts quantize their results, which the next products read: these are written,
  /// and backward what the activation came from is read.
  bool fused_experts = false;

  /// In addition to memory_traffic_of(kernel), at the same time.
  Bytes of_gradient(const Kernel& kernel, const OpType& op) const;
  /// Before the kernel. An input is quantized once for the forward pass, in both layouts; a
  /// gradient once for both of its products, before that by inputs. Each group has its own scales
  /// and kernels; the kernels that lay out scales come in one go, before all three products.
  struct Cast {
    Bytes bytes;
    int kernels = 0;
  };
  Cast of_cast(const Kernel& kernel, const OpType& op) const;
};

}  // namespace moesim
