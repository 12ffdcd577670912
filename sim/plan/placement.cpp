// SPDX-License-Identifier: Apache-2.0
// The slots of the GPUs and the experts in them.
#include "sim/plan/placement.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/error.h"

namespace moesim {

Placement::Placement(int experts, const SlotTable& experts_of) : first_slot_{0} {
  if (experts < 1) throw Error(fmt::format("a placement needs an expert or more, not {}", experts));
  std::size_t all_slots = 0;
  for (const auto& of_gpu : experts_of) all_slots += of_gpu.size();
  // If there are more experts than slots, one of the first has none: no memory for a number that is
  // a mistake.
  slots_of_.resize(std::min(static_cast<std::size_t>(experts), all_slots + 1));
  for (std::size_t gpu = 0; gpu < experts_of.size(); ++gpu) {
    for (const ExpertId expert : experts_of[gpu]) {
      if (expert.value < 0 || expert.value >= experts) {
        throw Error(fmt::format("GPU {} holds expert {}, but there are experts 0-{} only", gpu,
                                expert.value, experts - 1));
      }
      if (expert.index() < slots_of_.size()) slots_of_[expert.index()].emplace_back(slots());
      expert_in_.push_back(expert);
      gpu_of_.push_back(GpuId(static_cast<std::int64_t>(gpu)));
    }
    first_slot_.push_back(slots());
  }
  for (std::size_t expert = 0; expert < slots_of_.size(); ++expert) {
    if (slots_of_[expert].empty()) throw Error(fmt::format("no GPU holds expert {}", expert));
  }
}

SlotTable Placement::table() const { return table(GpuId(0), gpus()); }

SlotTable Placement::table(GpuId first, int gpus) const {
  SlotTable table;
  for (int g = first.value; g < first.value + gpus; ++g) {
    const auto slots = expert_in_.begin() + first_slot_[static_cast<std::size_t>(g)];
    table.emplace_back(slots, slots + slots_on(GpuId(g)));
  }
  return table;
}

SlotTable contiguous_homes(int experts, int gpus, int ep) {
  SlotTable experts_of(static_cast<std::size_t>(gpus));
  for (std::int64_t group = 0; group < gpus; group += ep) {
    for (std::int64_t expert = 0; expert < experts; ++expert) {
      experts_of[static_cast<std::size_t>(group + expert * ep / experts)].push_back(
          ExpertId(expert));
    }
  }
  return experts_of;
}

Placement contiguous_placement(int experts, int gpus, int ep) {
  if (gpus < 1 || ep < 1 || gpus % ep != 0) {
    throw Error(fmt::format("{} GPUs cannot form groups of ep = {}", gpus, ep),
                "ep must divide the number of GPUs");
  }
  if (ep > experts) {
    throw Error(
        fmt::format("ep = {} GPUs for {} experts leaves GPUs without an expert", ep, experts),
        "ep may not exceed the number of experts");
  }
  return Placement(experts, contiguous_homes(experts, gpus, ep));
}

}  // namespace moesim
