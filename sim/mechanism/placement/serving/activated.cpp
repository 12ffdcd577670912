// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/serving/activated.h"

#include <algorithm>
#include <tuple>
#include <vector>

namespace moesim {

Assignment fewest_activated(const Placement& slots, std::span<const std::int64_t> counts) {
  std::vector<SlotId> chosen;
  std::vector<ExpertId> order;
  for (int e = 0; e < slots.experts(); ++e) {
    const ExpertId expert(e);
    chosen.push_back(slots.slots_of(expert).front());
    if (counts[expert.index()] > 0) order.push_back(expert);
  }
  std::ranges::stable_sort(order, {}, [&](ExpertId e) { return slots.slots_of(e).size(); });
  struct Gpu {
    std::int64_t experts = 0, choices = 0;
  };
  std::vector<Gpu> gpus(static_cast<std::size_t>(slots.gpus()));
  for (const ExpertId expert : order) {
    const auto& replicas = slots.slots_of(expert);
    const SlotId best = *std::ranges::min_element(replicas, {}, [&](SlotId slot) {
      const GpuId gpu = slots.gpu_of(slot);
      const Gpu& at = gpus[gpu.index()];
      return std::tuple(at.experts, at.choices, gpu.value);
    });
    chosen[expert.index()] = best;
    Gpu& at = gpus[slots.gpu_of(best).index()];
    ++at.experts;
    at.choices += counts[expert.index()];
  }
  return {slots, std::vector(static_cast<std::size_t>(slots.gpus()), chosen)};
}

}  // namespace moesim
