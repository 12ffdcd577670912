// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/fsep/flex.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "sim/base/error.h"
#include "sim/mechanism/placement/fsep/spread.h"

namespace moesim::fsep {
namespace {

using Counts = std::vector<std::int64_t>;

std::int64_t copies_on(const std::vector<ExpertId>& rank, ExpertId expert) {
  return std::count(rank.begin(), rank.end(), expert);
}

void replace_one(std::vector<ExpertId>& rank, ExpertId old, ExpertId expert) {
  *std::find(rank.begin(), rank.end(), old) = expert;
}

/// Most and fewest token-slots of a rank.
struct Extremes {
  std::int64_t most;
  std::int64_t least;
  bool improves(const Extremes& before) const {
    // max/min, free of division: infinite when a rank is idle.
    return most < before.most || most * before.least < before.most * least;
  }
};

class Search {
 public:
  Search(const LoadMatrix& loads, const SlotTable& current, const SlotGrid& grid)
      : loads_(loads), per_expert_(loads.per_expert()), grid_(grid), slots_(current) {
    measure();
  }

  bool balanced() const { return extremes_.most == extremes_.least; }
  SlotTable slots() const { return slots_; }

  /// False, and nothing changed, when no step improves the loads.
  bool step() {
    if (!choose()) return false;
    const SlotTable before = slots_;
    const Extremes extremes = extremes_;
    for (int node = 0; node < grid_.nodes(); ++node) change(node);
    measure();
    if (extremes_.improves(extremes)) return true;
    slots_ = before;
    return false;
  }

 private:
  void measure() {
    const Placement placement(loads_.experts(), slots_);
    rank_loads_ = per_rank(placement, spread(loads_, Reach(placement, grid_.ranks_per_node)).slots);
    const auto [least, most] = std::minmax_element(rank_loads_.begin(), rank_loads_.end());
    extremes_ = {*most, *least};
    copies_.assign(per_expert_.size(), 0);
    for (int s = 0; s < placement.slots(); ++s) ++copies_[placement.expert_in(SlotId(s)).index()];
  }

  std::int64_t per_copy(ExpertId e) const { return per_expert_[e.index()] / copies_[e.index()]; }

  /// Finds the hot and the cold expert; false when they are the same or there is no cold one.
  bool choose() {
    hot_ = ExpertId(0);
    std::optional<ExpertId> cold;
    for (int e = 0; e < loads_.experts(); ++e) {
      const ExpertId expert(e);
      if (per_copy(expert) > per_copy(hot_)) hot_ = expert;
      if (copies_[expert.index()] == grid_.nodes()) continue;
      if (!cold || per_copy(expert) <= per_copy(*cold)) cold = expert;
    }
    cold_ = cold.value_or(hot_);
    cold_left_ = copies_[cold_.index()];
    return cold_ != hot_;
  }

  void change(int node) {
    const auto first =
        static_cast<std::size_t>(node) * static_cast<std::size_t>(grid_.ranks_per_node);
    std::optional<std::size_t> x, y;
    for (std::size_t r = first; r < first + static_cast<std::size_t>(grid_.ranks_per_node); ++r) {
      if (copies_on(slots_[r], cold_) > 0 && (!y || rank_loads_[r] < rank_loads_[*y])) y = r;
      const std::int64_t hot_here = copies_on(slots_[r], hot_);
      if (!x && hot_here > 0 && hot_here < static_cast<std::int64_t>(slots_[r].size())) x = r;
    }
    // Upstream fails if a node has no cold copy, and may drop an expert's last one; here such a
    // node is passed over.
    if (!y || cold_left_ == 1) return;
    --cold_left_;
    if (!x || *x == *y) return replace_one(slots_[*y], cold_, hot_);
    const ExpertId moved = heaviest_but_hot(slots_[*x]);
    replace_one(slots_[*x], moved, hot_);
    replace_one(slots_[*y], cold_, moved);
  }

  ExpertId heaviest_but_hot(const std::vector<ExpertId>& rank) const {
    std::optional<ExpertId> heaviest;
    for (const ExpertId e : rank) {
      if (e == hot_) continue;
      const bool more = !heaviest || per_copy(e) > per_copy(*heaviest) ||
                        (per_copy(e) == per_copy(*heaviest) && e < *heaviest);
      if (more) heaviest = e;
    }
    return *heaviest;
  }

  const LoadMatrix& loads_;
  Counts per_expert_;
  SlotGrid grid_;
  SlotTable slots_;
  Counts rank_loads_;  // before the step
  Counts copies_;      // per expert, before the step
  Extremes extremes_{};
  ExpertId hot_, cold_;
  std::int64_t cold_left_ = 0;
};

}  // namespace

FlexPlan flex_plan(const LoadMatrix& loads, const SlotTable& current, const SlotGrid& grid,
                   int max_steps) {
  grid.check(loads.experts());
  const bool fits = static_cast<int>(current.size()) == grid.ranks &&
                    std::all_of(current.begin(), current.end(), [&](const auto& rank) {
                      return static_cast<int>(rank.size()) == grid.slots_per_rank;
                    });
  if (!fits) {
    throw Error(fmt::format("the current placement is not of {} ranks with {} slots each",
                            grid.ranks, grid.slots_per_rank));
  }
  Search search(loads, current, grid);
  int steps = 0;
  while (steps < max_steps && !search.balanced() && search.step()) ++steps;
  return {search.slots(), steps};
}

}  // namespace moesim::fsep
