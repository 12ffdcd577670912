// SPDX-License-Identifier: Apache-2.0
// Which two experts to exchange so that the hierarchical all-to-all gets faster: the expert swap of
// HierMoE (HierD-ES, arXiv 2508.09591).
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "sim/mechanism/owners.h"
#include "sim/mechanism/placement/training/smooth_max.h"
#include "sim/model/group_counts.h"
#include "sim/trace/batches.h"

namespace moesim {

/// The objective Q_d of the swap search: t_d of the cost model with its maximum smoothed. Unstated
/// in the paper and chosen here: the depth is that of the current placement, kept for the search;
/// under CountReading::max the maximum over groups is smoothed, the one over local indices is not.
struct SwapObjective {
  const CollectiveCosts& costs;  // of the G ranks that share the experts
  int depth = 1;                 // d*: 1..D
  Bytes row;                     // one token row, M v
  CountReading reading = CountReading::mean;
  Maximum maximum = {};
};

/// One layer's choices; ranks[s] holds the tokens of rank s of 0..G-1.
struct LayerChoices {
  const IdRows& ids;
  std::span<const std::vector<TokenRun>> ranks;
};

/// Two experts that exchange slots; Q without and with it.
struct ExpertSwap {
  ExpertId first;  // < second
  ExpertId second;
  Seconds before;
  Seconds after;
};

/// Q[r, c] for all pairs, row-major and symmetric; the diagonal is Q without a swap. Throws Error
/// unless `table` has G GPUs and one slot per expert.
std::vector<Seconds> swap_times(const SwapObjective& objective, const SlotTable& table,
                                const LayerChoices& choices);

/// The pair of least Q, the smallest (first, second) of equal ones; none when no pair beats Q
/// without a swap. Differences below 1e-12 of Q are rounding and count as equal. Throws Error as
/// swap_times.
std::optional<ExpertSwap> find_swap(const SwapObjective& objective, const SlotTable& table,
                                    const LayerChoices& choices);

/// The slots after the exchange.
SlotTable swapped(SlotTable table, ExpertId a, ExpertId b);

}  // namespace moesim
