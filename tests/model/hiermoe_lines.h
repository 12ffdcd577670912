// SPDX-License-Identifier: Apache-2.0
// What collectives cost on HierMoE's testbed (arXiv 2508.09591, Fig. 9, fits on nccl-tests 2.18.5):
// 32 RTX A6000 in 4 nodes of 2 sockets of 2 NVLink pairs. The paper prints no units: ms, ms per
// byte and bytes is the one reading that fits the hardware.
#pragma once

#include "sim/model/collective_cost.h"

namespace moesim {

inline AlphaBeta published_line(double alpha_ms, double ms_per_byte) {
  return {Seconds(alpha_ms * 1e-3), ms_per_byte * 1e-3};
}

inline CollectiveCosts hiermoe_lines() {
  CollectiveCosts costs;
  costs.nesting = {32, {1, 4, 8, 16}};             // nodes, sockets, NVLink pairs
  costs.flat = published_line(0.722, 5.70e-7);     // 32 GPUs, r^2 = 0.999997
  costs.inter = {published_line(0.497, 5.29e-7),   // 4 GPUs, r^2 = 0.999991
                 published_line(0.301, 1.17e-7),   // 2 GPUs, r^2 = 0.998682
                 published_line(0.149, 2.06e-8)};  // 2 GPUs, r^2 = 0.999031
  costs.intra = {published_line(0.571, 1.27e-7),   // 8 GPUs, r^2 = 0.998922
                 published_line(0.114, 2.63e-8),   // 4 GPUs, r^2 = 0.999051
                 published_line(0.204, 1.64e-8)};  // 2 GPUs, r^2 = 0.997245
  return costs;
}

/// The lines of the first 2 or 4 nodes: beta of the flat and Inter-level-1 collectives scales with
/// the share (nodes - 1) / nodes of the bytes that leaves a node.
inline CollectiveCosts hiermoe_lines_of(int nodes) {
  CollectiveCosts costs = hiermoe_lines();
  const int all = costs.nesting.groups[1];
  costs.nesting.gpus = costs.nesting.gpus / all * nodes;
  for (std::size_t i = 1; i < costs.nesting.groups.size(); ++i) {
    costs.nesting.groups[i] = costs.nesting.groups[i] / all * nodes;
  }
  const double scale = (1 - 1.0 / nodes) / (1 - 1.0 / all);
  costs.flat.seconds_per_byte *= scale;
  costs.inter.front().seconds_per_byte *= scale;
  return costs;
}

}  // namespace moesim
