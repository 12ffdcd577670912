// SPDX-License-Identifier: Apache-2.0
// Links of nested blocks of ranks, as LAER-MoE's cluster and regular ones have.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "sim/mechanism/placement/fsep/cost.h"

namespace moesim::fsep {

/// Ranks that share aligned blocks of `ranks` send to each other at `bandwidth`.
struct TierOfRanks {
  int ranks;
  BytesPerSecond bandwidth;
};

/// Every pair uses the first tier that joins it; each size is a multiple of the one before.
inline Links tiered_links(std::vector<TierOfRanks> tiers) {
  return [tiers = std::move(tiers)](GpuId source, std::span<double> seconds_per_byte) {
    // From the outermost tier inwards: inner ones overwrite.
    for (auto tier = tiers.rbegin(); tier != tiers.rend(); ++tier) {
      const auto size = static_cast<std::size_t>(tier->ranks);
      const std::size_t first = source.index() / size * size;
      const auto block =
          seconds_per_byte.subspan(first, std::min(size, seconds_per_byte.size() - first));
      std::fill(block.begin(), block.end(), 1 / tier->bandwidth.value);
    }
  };
}

}  // namespace moesim::fsep
