// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/serving/vllm.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/error.h"

namespace moesim::vllm {
namespace {

std::vector<ExpertId> keep_slots_of_gpu(const std::vector<ExpertId>& before,
                                        const std::vector<ExpertId>& after) {
  std::vector<ExpertId> arrivals = after;
  std::vector<ExpertId> slots(after.size());
  std::vector<bool> kept(after.size());
  for (std::size_t s = 0; s < before.size(); ++s) {
    const auto stays = std::find(arrivals.begin(), arrivals.end(), before[s]);
    if (stays == arrivals.end()) continue;
    slots[s] = before[s];
    kept[s] = true;
    arrivals.erase(stays);
  }
  auto next = arrivals.begin();
  for (std::size_t s = 0; s < slots.size(); ++s) {
    if (!kept[s]) slots[s] = *next++;
  }
  return slots;
}

}  // namespace

SlotTable keep_slots(const SlotTable& before, const SlotTable& after) {
  SlotTable table;
  for (std::size_t g = 0; g < after.size(); ++g) {
    if (before.size() != after.size() || before[g].size() != after[g].size()) {
      throw Error("slots can only be kept between tables of one shape");
    }
    table.push_back(keep_slots_of_gpu(before[g], after[g]));
  }
  return table;
}

SlotTable rebalance(std::span<const double> loads, const eplb::Shape& shape,
                    const SlotTable& before) {
  return keep_slots(before, eplb::rebalance(loads, shape).table());
}

Shares shares(Rule rule, std::span<const Choice> choices, int k, std::span<const SlotId> replicas) {
  return shares_by(choices, replicas, [&](std::int64_t, const Choice& choice) {
    return replica_of(rule, choice, k, replicas.size());
  });
}

}  // namespace moesim::vllm
