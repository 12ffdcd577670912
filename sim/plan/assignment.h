// SPDX-License-Identifier: Apache-2.0
// Which replica serves a choice: (source rank, expert) -> slot, settled once for every dispatch.
#pragma once

#include <vector>

#include "sim/plan/placement.h"

namespace moesim {

/// The slot that serves each (source rank, expert) of one layer.
class Assignment {
 public:
  /// Every rank uses the replica in its own group of `ep` consecutive ranks (the lowest slot of
  /// several), else the replica on the lowest slot. Throws Error unless ep divides the GPUs.
  Assignment(const Placement& placement, int ep);
  /// From an explicit table [rank][expert] of slots; throws Error when a slot holds another expert.
  Assignment(Placement placement, std::vector<std::vector<SlotId>> slot_of);

  const Placement& placement() const { return placement_; }
  SlotId slot(GpuId source, ExpertId expert) const {
    return slot_of_[source.index()][expert.index()];
  }
  GpuId gpu(GpuId source, ExpertId expert) const {
    return gpu_of_[source.index() * static_cast<std::size_t>(placement_.experts()) +
                   expert.index()];
  }
  /// GPU per expert for one source rank: experts() entries.
  const GpuId* gpus(GpuId source) const {
    return gpu_of_.data() + source.index() * static_cast<std::size_t>(placement_.experts());
  }

 private:
  Placement placement_;
  std::vector<std::vector<SlotId>> slot_of_;
  std::vector<GpuId> gpu_of_;  // [rank][expert], flat
};

}  // namespace moesim
