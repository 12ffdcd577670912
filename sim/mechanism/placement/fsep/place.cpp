// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/fsep/place.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>
#include <utility>

#include "sim/base/error.h"
#include "sim/base/ordering.h"

namespace moesim::fsep {
namespace {

/// A rank with a free slot and its load so far; the lightest, then the lowest, comes first.
struct FreeRank {
  double load;
  int rank;
  bool operator>(const FreeRank& o) const { return load != o.load ? load > o.load : rank > o.rank; }
};

using Lightest = std::priority_queue<FreeRank, std::vector<FreeRank>, std::greater<>>;

/// Places the copies of one expert after another. A node takes part with its lightest free rank.
class Placer {
 public:
  explicit Placer(const SlotGrid& grid)
      : grid_(grid), loads_(static_cast<std::size_t>(grid.ranks)), best_(nodes()) {
    placed_.slots.resize(loads_.size());
    for (std::size_t node = 0; node < nodes(); ++node) find_best(node);
  }

  /// Nodes in `now` hold the fewest copies, nodes in `later` one more. Full nodes take no more
  /// copies but count as holders of the fewest: they keep `later` from becoming `now`.
  void add(ExpertId expert, double load, int copies) {
    std::vector<FreeRank> open;
    for (const FreeRank& best : best_) {
      if (best.rank >= 0) open.push_back(best);
    }
    bool full_now = open.size() < nodes();
    bool full_later = false;
    Lightest now(std::greater<>(), std::move(open));
    Lightest later;
    for (int copy = 0; copy < copies; ++copy) {
      if (now.empty() && !full_now) {
        std::swap(now, later);
        full_now = std::exchange(full_later, false);
      }
      Lightest& from = now.empty() ? later : now;
      if (now.empty()) ++placed_.fallbacks;
      const int rank = from.top().rank;
      from.pop();
      const FreeRank next = put(expert, load, rank);
      if (next.rank >= 0) {
        later.push(next);
      } else {
        full_later = true;
      }
    }
  }

  Placed finish() {
    for (auto& experts : placed_.slots) std::sort(experts.begin(), experts.end());
    return std::move(placed_);
  }

 private:
  std::size_t nodes() const { return static_cast<std::size_t>(grid_.nodes()); }

  /// The node's next candidate after the rank took the copy.
  const FreeRank& put(ExpertId expert, double load, int rank) {
    const auto r = static_cast<std::size_t>(rank);
    placed_.slots[r].push_back(expert);
    loads_[r] += load;
    const auto node = static_cast<std::size_t>(grid_.node_of(GpuId(rank)));
    find_best(node);
    return best_[node];
  }

  void find_best(std::size_t node) {
    FreeRank& best = best_[node] = {0, -1};
    const int first = static_cast<int>(node) * grid_.ranks_per_node;
    for (int rank = first; rank < first + grid_.ranks_per_node; ++rank) {
      const auto r = static_cast<std::size_t>(rank);
      if (static_cast<int>(placed_.slots[r].size()) == grid_.slots_per_rank) continue;
      if (best.rank < 0 || loads_[r] < best.load) best = {loads_[r], rank};
    }
  }

  SlotGrid grid_;
  Placed placed_;
  std::vector<double> loads_;   // per rank
  std::vector<FreeRank> best_;  // per node; rank -1 when full
};

}  // namespace

Placed place(std::span<const std::int64_t> loads, std::span<const int> copies,
             const SlotGrid& grid) {
  grid.check(static_cast<int>(loads.size()));
  const bool each = std::all_of(copies.begin(), copies.end(), [](int c) { return c > 0; });
  const int sum = std::accumulate(copies.begin(), copies.end(), 0);
  if (copies.size() != loads.size() || !each || sum != grid.slots()) {
    throw Error(fmt::format("{} copies of {} experts do not fill {} slots", sum, copies.size(),
                            grid.slots()));
  }
  std::vector<double> weights;  // of one copy
  for (std::size_t e = 0; e < loads.size(); ++e) {
    weights.push_back(static_cast<double>(loads[e]) / copies[e]);
  }
  Placer placer(grid);
  for (const ExpertId e : descending<ExpertId>(weights)) {
    placer.add(e, weights[e.index()], copies[e.index()]);
  }
  return placer.finish();
}

}  // namespace moesim::fsep
