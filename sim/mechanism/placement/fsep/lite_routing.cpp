// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/fsep/lite_routing.h"

#include <algorithm>

#include "sim/base/id_vector.h"

namespace moesim::fsep {
namespace {

Shares shares_of(std::int64_t choices, std::span<const SlotId> slots) {
  if (choices == 0) return {{slots.front(), 1}};
  const auto w = static_cast<std::int64_t>(slots.size());
  const std::int64_t each = choices / w;
  const std::int64_t rest = choices % w;
  const std::int64_t used = std::min(w, choices);
  Shares shares;
  shares.reserve(used);
  for (std::int64_t p = 0; p < used; ++p) {
    shares.push_back({slots[p], each + (p < rest ? 1 : 0)});
  }
  return shares;
}

}  // namespace

std::vector<std::vector<Shares>> lite_shares(const LoadMatrix& loads, const Reach& reach) {
  check_shapes(loads, reach.placement());
  IdVector<GpuId, std::vector<Shares>> shares(loads.sources());
  for (const GpuId source : shares.ids()) {
    const int node = source.value / reach.ranks_per_node();
    shares[source].reserve(loads.experts());
    for (const ExpertId e : ids<ExpertId>(loads.experts())) {
      shares[source].push_back(shares_of(loads.at(source, e), reach.slots(node, e)));
    }
  }
  return std::move(shares).take();
}

}  // namespace moesim::fsep
