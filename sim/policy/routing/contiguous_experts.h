// SPDX-License-Identifier: Apache-2.0
// Where experts live before any placement has moved them.
#pragma once

#include <vector>

#include "sim/plan/placement.h"

namespace moesim {

/// The GPU of every expert within an EP group of `ep` ranks, of the contiguous placement.
inline std::vector<GpuId> contiguous_gpus(int experts, int ep) {
  const Placement placement = contiguous_placement(experts, ep, ep);
  std::vector<GpuId> gpus;
  for (int e = 0; e < experts; ++e) {
    gpus.push_back(placement.gpu_of(placement.slots_of(ExpertId(e)).front()));
  }
  return gpus;
}

}  // namespace moesim
