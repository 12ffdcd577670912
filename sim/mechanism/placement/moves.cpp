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

GpuId nearest(const std::set<GpuId>& holders, GpuId gpu, std::span<const int> hosts) {
  const auto here = std::ranges::find_if(
      holders, [&](GpuId holder) { return hosts[holder.index()] == hosts[gpu.index()]; });
  return here != holders.end() ? *here : *holders.begin();
}

}  // namespace

std::vector<WeightMove> weight_moves(const SlotTable& before, const SlotTable& after,
                                     std::span<const int> hosts) {
  if (before.size() != after.size() || before.size() != hosts.size()) {
    throw Error(fmt::format("{} and {} GPUs on hosts of {} do not match", before.size(),
                            after.size(), hosts.size()));
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
      moves.push_back({expert, nearest(found->second, gpu, hosts), gpu});
    }
  }
  return moves;
}

}  // namespace moesim
