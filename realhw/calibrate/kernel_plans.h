// SPDX-License-Identifier: Apache-2.0
// The kernels that a calibration measures, on all ranks at once as in steps, and kernels during
// exchanges.
#pragma once

#include <vector>

#include "realhw/calibrate/micro_plan.h"
#include "sim/model/moe_model.h"
#include "sim/topology/topology.h"

namespace moesim {

struct KernelSizes {
  std::int64_t rows = 4096;  // most of a rank's experts together
  double step = 2;           // ratio of neighbouring rows of an expert
  Bytes most{64 << 20};      // of a kernel bound by memory
  Seconds exchange{0.005};   // of one during kernels, by the topology's bandwidths
};

/// Steps of the model, forward and backward, in which every rank's tokens stay with its own
/// experts: one, and as many as a rank has by the model, with 1, 4, ... rows each. And memory-bound
/// kernels of many sizes (Probe::sized).
std::vector<MicroPlan> kernel_plans(const Topology& topology, const MoeModel& model,
                                    const KernelSizes& sizes);

/// Only GEMMs, then only all-to-alls, then both at once (Probe).
MicroPlan overlap_plan(const Topology& topology, const MoeModel& model, const KernelSizes& sizes);

}  // namespace moesim
