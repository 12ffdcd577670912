// SPDX-License-Identifier: Apache-2.0
// Which replica serves each (source rank, expert).
#include "sim/plan/assignment.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/error.h"

namespace moesim {
namespace {

/// The lowest slot of the expert on GPUs first..first + ep - 1, else its lowest slot.
SlotId nearest_replica(const Placement& placement, ExpertId expert, int first, int ep) {
  const std::vector<SlotId>& slots = placement.slots_of(expert);
  const auto in_group =
      std::lower_bound(slots.begin(), slots.end(), placement.first_slot(GpuId(first)));
  const bool found = in_group != slots.end() && placement.gpu_of(*in_group).value < first + ep;
  return found ? *in_group : slots.front();
}

std::vector<std::vector<SlotId>> group_table(const Placement& placement, int ep) {
  if (ep < 1 || placement.gpus() % ep != 0) {
    throw Error(fmt::format("{} GPUs cannot form groups of ep = {}", placement.gpus(), ep),
                "ep must divide the number of GPUs");
  }
  std::vector<std::vector<SlotId>> table;
  for (int first = 0; first < placement.gpus(); first += ep) {
    std::vector<SlotId> row;
    for (int e = 0; e < placement.experts(); ++e) {
      row.push_back(nearest_replica(placement, ExpertId(e), first, ep));
    }
    table.insert(table.end(), static_cast<std::size_t>(ep), row);
  }
  return table;
}

}  // namespace

Assignment::Assignment(const Placement& placement, int ep)
    : Assignment(placement, group_table(placement, ep)) {}

Assignment::Assignment(Placement placement, std::vector<std::vector<SlotId>> slot_of)
    : placement_(std::move(placement)), slot_of_(std::move(slot_of)) {
  const auto experts = static_cast<std::size_t>(placement_.experts());
  if (slot_of_.size() != static_cast<std::size_t>(placement_.gpus())) {
    throw Error(fmt::format("an assignment for {} ranks on a placement over {} GPUs",
                            slot_of_.size(), placement_.gpus()));
  }
  gpu_of_.reserve(slot_of_.size() * experts);
  for (std::size_t rank = 0; rank < slot_of_.size(); ++rank) {
    if (slot_of_[rank].size() != experts) {
      throw Error(fmt::format("the assignment of rank {} lists {} slots for {} experts", rank,
                              slot_of_[rank].size(), experts));
    }
    for (std::size_t expert = 0; expert < experts; ++expert) {
      const SlotId slot = slot_of_[rank][expert];
      if (slot.value < 0 || slot.value >= placement_.slots()) {
        throw Error(
            fmt::format("rank {} takes expert {} from slot {}, but there are slots 0-{} only", rank,
                        expert, slot.value, placement_.slots() - 1));
      }
      if (placement_.expert_in(slot).index() != expert) {
        throw Error(fmt::format("rank {} takes expert {} from slot {}, which holds expert {}", rank,
                                expert, slot.value, placement_.expert_in(slot).value));
      }
      gpu_of_.push_back(placement_.gpu_of(slot));
    }
  }
}

}  // namespace moesim
