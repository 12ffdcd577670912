// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/affinity/moetuner.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

#include "sim/base/error.h"
#include "sim/base/ordering.h"

namespace moesim {
namespace {

using Clusters = std::vector<std::vector<ExpertId>>;

/// Which cluster each GPU holds in each layer, and what that costs.
class ClusterAssignment {
 public:
  explicit ClusterAssignment(const MoetunerInput& input)
      : cost_(input.seconds_per_token), gpus_(static_cast<std::size_t>(input.gpus)) {
    for (const auto& loads : input.loads) {
      clusters_.push_back(moetuner_clusters(loads, input.gpus));
    }
    for (std::size_t l = 0; l + 1 < clusters_.size(); ++l) {
      between_.push_back(count(input.transitions[l], clusters_[l], clusters_[l + 1]));
    }
    totals_.assign(gpus_, 0);
    for (const Clusters& layer : clusters_) hand_out(layer);
    for (std::size_t l = 0; l < between_.size(); ++l) known_.push_back(pairs_after(l));
  }

  void improve() {
    for (bool better = true; better;) {
      better = false;
      for (std::size_t l = 0; l < clusters_.size(); ++l) {
        for (std::size_t a = 0; a < gpus_; ++a) {
          for (std::size_t b = a + 1; b < gpus_; ++b) better = try_swap(l, a, b) || better;
        }
      }
    }
  }

  int spread() const {
    const auto [least, most] = std::minmax_element(totals_.begin(), totals_.end());
    return *most - *least;
  }
  std::vector<SlotTable> tables() const {
    std::vector<SlotTable> tables;
    for (std::size_t l = 0; l < clusters_.size(); ++l) {
      SlotTable table;
      for (const std::size_t cluster : held_[l]) table.push_back(clusters_[l][cluster]);
      tables.push_back(std::move(table));
    }
    return tables;
  }

 private:
  std::vector<std::int64_t> count(const PairMatrix& transitions, const Clusters& from,
                                  const Clusters& to) const {
    std::vector<std::int64_t> sums(gpus_ * gpus_);
    for (std::size_t c = 0; c < gpus_; ++c) {
      for (std::size_t d = 0; d < gpus_; ++d) {
        for (const ExpertId e : from[c]) {
          for (const ExpertId f : to[d]) sums[c * gpus_ + d] += transitions.at(e, f);
        }
      }
    }
    return sums;
  }

  /// A start of small spread: the largest cluster of a layer to the GPU with fewest experts so far.
  void hand_out(const Clusters& layer) {
    std::vector<std::size_t> gpus(gpus_), order(gpus_), held(gpus_);
    std::iota(gpus.begin(), gpus.end(), std::size_t{0});
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(gpus.begin(), gpus.end(),
                     [&](std::size_t a, std::size_t b) { return totals_[a] < totals_[b]; });
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return layer[a].size() > layer[b].size();
    });
    for (std::size_t i = 0; i < gpus_; ++i) {
      held[gpus[i]] = order[i];
      totals_[gpus[i]] += static_cast<int>(layer[order[i]].size());
    }
    held_.push_back(std::move(held));
  }

  /// Seconds between a layer and the next: of the slowest GPU pair, and of all pairs together.
  struct Cost {
    double slowest = 0;
    double sum = 0;
  };
  /// The same of all pairs, with the slowest of every GPU of the layer and of the next.
  struct Pairs {
    double sum = 0;
    std::vector<double> from, to;
    double slowest() const { return *std::max_element(from.begin(), from.end()); }
  };
  double seconds(std::size_t l, std::size_t from_cluster, std::size_t to_cluster, std::size_t g,
                 std::size_t h) const {
    const std::int64_t tokens = between_[l][from_cluster * gpus_ + to_cluster];
    return static_cast<double>(tokens) * cost_[g * gpus_ + h];
  }
  Pairs pairs_after(std::size_t l) const {
    Pairs pairs{0, std::vector<double>(gpus_), std::vector<double>(gpus_)};
    for (std::size_t g = 0; g < gpus_; ++g) {
      for (std::size_t h = 0; h < gpus_; ++h) {
        const double pair = seconds(l, held_[l][g], held_[l + 1][h], g, h);
        pairs.from[g] = std::max(pairs.from[g], pair);
        pairs.to[h] = std::max(pairs.to[h], pair);
        pairs.sum += pair;
      }
    }
    return pairs;
  }

  /// What a swap in a layer can change, the weightiest first: how uneven totals are (squares tell
  /// apart what has one spread, so that the search continues), the slowest pairs, and the sum,
  /// which guides the search if several pairs are slowest.
  using Around = std::tuple<std::int64_t, double, double>;

  Around cost_around(std::size_t l) const {
    Cost cost;
    for (const std::size_t pair : {l - 1, l}) {
      if (pair >= known_.size()) continue;
      cost.slowest += known_[pair].slowest();
      cost.sum += known_[pair].sum;
    }
    return {0, cost.slowest, cost.sum};
  }

  /// What it would be if GPUs a and b had each other's clusters of the layer: only their pairs
  /// change. Unevenness is counted from what it is.
  Around cost_swapped(std::size_t l, std::size_t a, std::size_t b) const {
    Cost cost;
    if (l > 0) add_swapped(l - 1, {a, b}, known_[l - 1].to, false, cost);
    if (l < known_.size()) add_swapped(l, {a, b}, known_[l].from, true, cost);
    const std::int64_t more = size_of(l, b) - size_of(l, a);
    return {2 * more * (totals_[a] - totals_[b] + more), cost.slowest, cost.sum};
  }

  /// Adds the cost between layer l and the next; `from`: the swap is in the layer itself.
  /// `slowest_of`: pairs of each GPU on that side.
  void add_swapped(std::size_t l, std::pair<std::size_t, std::size_t> swap,
                   const std::vector<double>& slowest_of, bool from, Cost& cost) const {
    const auto& held = held_[from ? l : l + 1];
    const auto of = [&](std::size_t gpu, std::size_t cluster, std::size_t other) {
      return from ? seconds(l, cluster, held_[l + 1][other], gpu, other)
                  : seconds(l, held_[l][other], cluster, other, gpu);
    };
    double slowest = 0, sum = known_[l].sum;
    const auto [a, b] = swap;
    for (std::size_t g = 0; g < gpus_; ++g) {
      if (g != a && g != b) slowest = std::max(slowest, slowest_of[g]);
      const double at_a = of(a, held[b], g), at_b = of(b, held[a], g);
      slowest = std::max({slowest, at_a, at_b});
      sum += at_a - of(a, held[a], g) + at_b - of(b, held[b], g);
    }
    cost.slowest += slowest;
    cost.sum += sum;
  }

  /// Swaps two GPUs' clusters of one layer if that costs less.
  bool try_swap(std::size_t l, std::size_t a, std::size_t b) {
    if (!less(cost_swapped(l, a, b), cost_around(l))) return false;
    swap(l, a, b);
    if (l > 0) known_[l - 1] = pairs_after(l - 1);
    if (l < known_.size()) known_[l] = pairs_after(l);
    return true;
  }

  /// Sums that differ only by rounding are equal, or the search might turn in circles.
  static bool less(const Around& a, const Around& b) {
    if (std::get<0>(a) != std::get<0>(b)) return std::get<0>(a) < std::get<0>(b);
    const double margin = 1 - 1e-12;
    if (std::get<1>(a) < margin * std::get<1>(b)) return true;
    return std::get<1>(a) <= std::get<1>(b) && std::get<2>(a) < margin * std::get<2>(b);
  }

  /// Experts of a layer on a GPU.
  int size_of(std::size_t l, std::size_t gpu) const {
    return static_cast<int>(clusters_[l][held_[l][gpu]].size());
  }

  void swap(std::size_t l, std::size_t a, std::size_t b) {
    const int more = size_of(l, b) - size_of(l, a);
    totals_[a] += more;
    totals_[b] -= more;
    std::swap(held_[l][a], held_[l][b]);
  }

  const std::vector<double>& cost_;
  std::size_t gpus_;
  std::vector<Clusters> clusters_;                  // [layer]
  std::vector<std::vector<std::int64_t>> between_;  // [layer][cluster][cluster of the next]
  std::vector<std::vector<std::size_t>> held_;      // [layer][gpu]: its cluster
  std::vector<int> totals_;                         // experts per GPU over all layers
  std::vector<Pairs> known_;                        // [layer] of it and the next, as it is
};

void check_input(const MoetunerInput& input) {
  const auto gpus = static_cast<std::size_t>(std::max(input.gpus, 0));
  if (input.loads.empty() || input.transitions.size() + 1 != input.loads.size()) {
    throw Error(
        fmt::format("{} transitions for {} layers", input.transitions.size(), input.loads.size()));
  }
  if (input.seconds_per_token.size() != gpus * gpus) {
    throw Error(fmt::format("{} GPUs need a cost for each of their pairs", input.gpus));
  }
}

}  // namespace

Clusters moetuner_clusters(std::span<const std::int64_t> loads, int clusters) {
  if (clusters < 1 || static_cast<std::size_t>(clusters) > loads.size()) {
    throw Error(fmt::format("{} experts cannot fill {} clusters", loads.size(), clusters));
  }
  Clusters members(clusters);
  std::vector<std::int64_t> sums(members.size());
  for (const ExpertId e : descending<ExpertId>(loads)) {
    std::size_t least = 0;
    for (std::size_t c = 1; c < members.size(); ++c) {
      if (std::pair(sums[c], members[c].size()) < std::pair(sums[least], members[least].size())) {
        least = c;
      }
    }
    sums[least] += loads[e.index()];
    members[least].push_back(e);
  }
  for (auto& cluster : members) std::sort(cluster.begin(), cluster.end());
  return members;
}

double moetuner_seconds(const MoetunerInput& input, const std::vector<SlotTable>& layers) {
  const auto gpus = static_cast<std::size_t>(input.gpus);
  double sum = 0;
  for (std::size_t l = 0; l + 1 < layers.size(); ++l) {
    double slowest = 0;
    for (std::size_t g = 0; g < gpus; ++g) {
      for (std::size_t h = 0; h < gpus; ++h) {
        std::int64_t tokens = 0;
        for (const ExpertId e : layers[l][g]) {
          for (const ExpertId f : layers[l + 1][h]) tokens += input.transitions[l].at(e, f);
        }
        slowest =
            std::max(slowest, static_cast<double>(tokens) * input.seconds_per_token[g * gpus + h]);
      }
    }
    sum += slowest;
  }
  return sum;
}

MoetunerPlacement place_moetuner(const MoetunerInput& input) {
  check_input(input);
  ClusterAssignment assignment(input);
  assignment.improve();
  MoetunerPlacement placement{.layers = assignment.tables(), .seconds = 0, .spread = 0};
  placement.seconds = moetuner_seconds(input, placement.layers);
  placement.spread = assignment.spread();
  return placement;
}

}  // namespace moesim
