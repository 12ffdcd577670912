// SPDX-License-Identifier: Apache-2.0
// What biases of experts cost. Private to sim/planner.
#pragma once

namespace moesim {

/// Elements of 2 bytes per element of an expert's output.
struct BiasTraffic {
  int read = 0, written = 0;
};

/// Bytes of `cat([rows + bias * weight of its expert]).to(bf16)` and its gradients, kernel by
/// kernel with weights in fp32 (NVIDIA/Megatron-LM d98e8a64, moe/experts.py:
/// TEGroupedMLP._apply_bias). Forward: bias x weight (4 bytes written), sum (2 + 4 read, 4
/// written), join (4, 4), conversion (4, 2). Backward: conversion (2, 4), that of the rows (4, 2),
/// joined (2, 2), and for bias and weight a product each (4, 4) that is summed up (4).
constexpr BiasTraffic traffic_of_bias(bool forward) {
  return forward ? BiasTraffic{(6 + 4 + 4) / 2, (4 + 4 + 4 + 2) / 2}
                 : BiasTraffic{(2 + 4 + 2 + 2 * (4 + 4)) / 2, (4 + 2 + 2 + 2 * 4) / 2};
}

}  // namespace moesim
