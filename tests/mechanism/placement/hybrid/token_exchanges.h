// SPDX-License-Identifier: Apache-2.0
// The dispatch of HybridEP's domains, counted choice by choice.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/mechanism/owners.h"
#include "sim/mechanism/placement/hybrid/domains.h"

namespace moesim {

/// The dispatch of one row per choice, level 0 first; the diagonal is what stays. Every expert
/// lives on one GPU of `home` (Error). Combine is each matrix transposed, last level first.
inline LevelExchanges token_exchanges(const ExpertDomains& domains, const LoadMatrix& loads,
                                      const SlotTable& home, Bytes row) {
  const std::vector<GpuId> home_of = owners_of(home, loads);
  const auto n = static_cast<std::size_t>(domains.gpus());
  std::vector<std::vector<std::int64_t>> bytes(static_cast<std::size_t>(domains.levels()),
                                               std::vector<std::int64_t>(n * n));
  for (int source = 0; source < domains.gpus(); ++source) {
    for (std::size_t e = 0; e < home_of.size(); ++e) {
      GpuId at(source);
      for (int level = 0; level < domains.levels(); ++level) {
        const GpuId to = domains.hop(at, home_of[e], level);
        bytes[static_cast<std::size_t>(level)][at.index() * n + to.index()] +=
            loads.row(GpuId(source))[e] * row.value;
        at = to;
      }
    }
  }
  LevelExchanges exchanges;
  for (const auto& level : bytes) {
    exchanges.push_back(ByteMatrix::from_dense(domains.gpus(), level));
  }
  return exchanges;
}

}  // namespace moesim
