// SPDX-License-Identifier: Apache-2.0
// Where experts live: the experts of one layer on the slots of the GPUs, replicas included.
#pragma once

#include <span>
#include <vector>

#include "sim/base/types.h"

namespace moesim {

/// The experts in the slots of every GPU: [gpu][slot].
using SlotTable = std::vector<std::vector<ExpertId>>;

/// One layer's expert -> slot map. Slots of a GPU are consecutive and in rank order. A GPU may hold
/// an expert in several slots.
class Placement {
 public:
  /// Throws Error when an expert of 0..experts-1 has no slot.
  Placement(int experts, const SlotTable& experts_of);

  int experts() const { return static_cast<int>(slots_of_.size()); }
  int gpus() const { return static_cast<int>(first_slot_.size()) - 1; }
  int slots() const { return static_cast<int>(expert_in_.size()); }
  ExpertId expert_in(SlotId slot) const { return expert_in_[slot.index()]; }
  GpuId gpu_of(SlotId slot) const { return gpu_of_[slot.index()]; }
  /// The slots of a GPU: first and one past the last.
  SlotId first_slot(GpuId gpu) const { return SlotId(first_slot_[gpu.index()]); }
  int slots_on(GpuId gpu) const { return first_slot_[gpu.index() + 1] - first_slot_[gpu.index()]; }
  /// Slots that hold an expert, ascending.
  const std::vector<SlotId>& slots_of(ExpertId expert) const { return slots_of_[expert.index()]; }
  SlotTable table() const;
  /// The slots of the `gpus` GPUs from `first` on.
  SlotTable table(GpuId first, int gpus) const;
  bool operator==(const Placement&) const = default;

 private:
  std::vector<ExpertId> expert_in_;
  std::vector<GpuId> gpu_of_;
  std::vector<int> first_slot_;
  std::vector<std::vector<SlotId>> slots_of_;
};

/// Consecutive ranks form EP groups of `ep` GPUs, each group holds every expert once: expert e on
/// its GPU floor(e x ep / experts).
SlotTable contiguous_homes(int experts, int gpus, int ep);
/// The static placement with these slots. Requires gpus % ep == 0, ep <= experts.
Placement contiguous_placement(int experts, int gpus, int ep);

}  // namespace moesim
