// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/moves.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "sim/base/error.h"
#include "sim/base/id_vector.h"

namespace moesim {
namespace {

using Holders = std::map<ExpertId, std::set<GpuId>>;

Holders holders_of(const SlotTable& table) {
  Holders holders;
  for (const GpuId gpu : ids_of<GpuId>(table)) {
    for (const ExpertId expert : table[gpu.index()]) holders[expert].insert(gpu);
  }
  return holders;
}

GpuId nearest(const std::set<GpuId>& holders, GpuId gpu, int gpus_per_node) {
  const int first = gpu.value / gpus_per_node * gpus_per_node;
  const auto in_node = holders.lower_bound(GpuId(first));
  const bool found = in_node != holders.end() && in_node->value < first + gpus_per_node;
  return found ? *in_node : *holders.begin();
}

}  // namespace

std::vector<WeightMove> weight_moves(const SlotTable& before, const SlotTable& after,
                                     int gpus_per_node) {
  if (before.size() != after.size() || gpus_per_node < 1) {
    throw Error(fmt::format("{} and {} GPUs in nodes of {} do not match", before.size(),
                            after.size(), gpus_per_node));
  }
  const Holders holders = holders_of(before);
  std::vector<WeightMove> moves;
  for (const GpuId gpu : ids_of<GpuId>(after)) {
    const std::size_t g = gpu.index();
    std::set<ExpertId> here(before[g].begin(), before[g].end());
    for (const ExpertId expert : after[g]) {
      if (!here.insert(expert).second) continue;
      const auto found = holders.find(expert);
      if (found == holders.end()) {
        throw Error(fmt::format("GPU {} wants expert {}, which no GPU holds", g, expert.value));
      }
      moves.push_back({expert, nearest(found->second, gpu, gpus_per_node), gpu});
    }
  }
  return moves;
}

}  // namespace moesim
