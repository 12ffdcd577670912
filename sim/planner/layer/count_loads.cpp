// SPDX-License-Identifier: Apache-2.0
#include "sim/planner/layer/count_loads.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "sim/mechanism/known_choices.h"
#include "sim/trace/id_counts.h"

namespace moesim {

LoadMatrix count_loads(const Batch& batch, IdRows ids, int experts) {
  LoadMatrix loads(static_cast<int>(batch.ranks.size()), experts);
  IdCounter counter(static_cast<std::size_t>(experts));
  std::vector<std::uint32_t> own;
  for (GpuId rank(0); rank.index() < batch.ranks.size(); ++rank.value) {
    const std::vector<TokenRun>& runs = batch.ranks[rank.index()];
    KnownChoices::OfRank* const known = KnownChoices::find(ids.data(), runs);
    std::vector<std::uint32_t>& counts = known != nullptr ? known->chosen : own;
    if (known == nullptr || std::ssize(counts) != experts) {
      counts.assign(static_cast<std::size_t>(experts), 0);
      for (const TokenRun& run : runs) counter.add(ids, run.first, run.count, counts);
      counter.finish(counts);
    }
    std::ranges::copy(counts, &loads.at(rank, ExpertId(0)));
  }
  return loads;
}

}  // namespace moesim
