// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/serving/lazarus.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <optional>
#include <utility>

#include "sim/base/error.h"
#include "sim/base/id_vector.h"
#include "sim/base/ordering.h"
#include "sim/mechanism/placement/serving/replica_choice.h"

namespace moesim::lazarus {
namespace {

/// Replicas on nodes, of an expert one per node at most.
class Nodes {
 public:
  Nodes(std::span<const int> replicas, const Shape& shape)
      : table_(static_cast<std::size_t>(shape.nodes)),
        room_(table_.size(), shape.slots_per_node),
        left_(replicas.begin(), replicas.end()),
        core_(replicas.size()) {}

  /// Of the expert's replicas one goes to every node of `core` with room, to stay there.
  void place_core(ExpertId expert, const std::vector<std::size_t>& core) {
    core_[expert.index()] = core;
    for (const std::size_t node : core) {
      if (room_[node] > 0) put(node, expert);
    }
  }

  /// Whether the core has room, and all replicas that are left then fit on nodes of their own. By
  /// Gale and Ryser: for every k, the k experts of most replicas need no more slots than nodes have
  /// for k experts. Which nodes hold an expert already is left out.
  bool fits(ExpertId expert, const std::vector<std::size_t>& core) const {
    std::vector<int> room = room_, left = left_;
    left[expert.index()] -= static_cast<int>(core.size());
    for (const std::size_t node : core) {
      if (room[node]-- == 0) return false;
    }
    std::ranges::sort(left, std::greater<>());
    std::ranges::sort(room, std::greater<>());
    std::int64_t wanted = 0, found = 0;
    std::size_t roomy = room.size();  // nodes with room for as many experts as are asked for
    for (std::size_t k = 0; k < left.size() && left[k] > 0; ++k) {
      while (roomy > 0 && room[roomy - 1] <= static_cast<int>(k)) --roomy;
      wanted += left[k], found += static_cast<std::int64_t>(roomy);
      if (wanted > found) return false;
    }
    return true;
  }

  /// The nodes with most room, lowest first if equal.
  std::vector<std::size_t> roomiest(int count) const {
    std::vector<std::size_t> order = descending<std::size_t>(room_);
    order.resize(static_cast<std::size_t>(count));
    return order;
  }

  /// The replicas that are left, evenly over nodes with room; those of most left first.
  void place_rest() {
    for (const ExpertId expert : descending<ExpertId>(std::vector<int>(left_))) {
      while (left_[expert.index()] > 0) {
        const auto node = roomiest_without(expert);
        if (node) {
          put(*node, expert);
        } else {
          put_by_exchange(expert);
        }
      }
    }
  }

  SlotTable take() { return std::move(table_); }

 private:
  bool holds(std::size_t node, ExpertId expert) const {
    return std::ranges::find(table_[node], expert) != table_[node].end();
  }
  void put(std::size_t node, ExpertId expert) {
    table_[node].push_back(expert);
    --room_[node], --left_[expert.index()];
  }
  std::optional<std::size_t> roomiest_without(ExpertId expert) const {
    std::optional<std::size_t> best;
    for (std::size_t node = 0; node < table_.size(); ++node) {
      if (room_[node] == 0 || (best && room_[node] <= room_[*best])) continue;
      if (!holds(node, expert)) best = node;
    }
    return best;
  }
  bool in_core(ExpertId expert, std::size_t node) const {
    const auto& core = core_[expert.index()];
    return std::ranges::find(core, node) != core.end();
  }

  /// Every node with room holds the expert: a full one without it hands another expert to the first
  /// with room, if possible one that is not in its core. There is one: it holds more experts.
  void put_by_exchange(ExpertId expert) {
    const auto roomy = static_cast<std::size_t>(
        std::ranges::find_if(room_, [](int room) { return room > 0; }) - room_.begin());
    ExpertId* moved = nullptr;
    std::size_t from = 0;
    bool spare = false;
    for (std::size_t node = 0; node < table_.size() && !spare; ++node) {
      if (holds(node, expert)) continue;
      for (ExpertId& other : table_[node]) {
        if (holds(roomy, other)) continue;
        spare = !in_core(other, node);
        if (!moved || spare) moved = &other, from = node;
        if (spare) break;
      }
    }
    const ExpertId other = *moved;
    table_[from].erase(table_[from].begin() + (moved - table_[from].data()));
    ++room_[from], ++left_[other.index()];
    put(from, expert);
    put(roomy, other);
  }

  SlotTable table_;
  std::vector<int> room_;                       // [node]
  std::vector<int> left_;                       // [expert] replicas to place
  std::vector<std::vector<std::size_t>> core_;  // [expert] nodes
};

/// Shares of a rank while the replicas' quotas are used up.
class Quotas {
 public:
  Quotas(const Placement& placement, ExpertId expert, std::int64_t total)
      : placement_(placement), slots_(placement.slots_of(expert)) {
    const auto copies = static_cast<std::int64_t>(slots_.size());
    for (std::int64_t i = 0; i < copies; ++i) {
      left_.push_back(total / copies + (i < total % copies ? 1 : 0));
    }
  }

  /// How much of `count` choices the rank's own replicas take, per replica.
  std::vector<std::int64_t> take_own(GpuId source, std::int64_t count) {
    std::vector<std::int64_t> taken(slots_.size());
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      if (placement_.gpu_of(slots_[i]) != source) continue;
      taken[i] = std::min(count, left_[i]);
      left_[i] -= taken[i];
      count -= taken[i];
    }
    return taken;
  }

  /// Adds `count` choices that go to the replicas in proportion to what they have left.
  void take_rest(std::int64_t count, std::vector<std::int64_t>& taken) {
    const std::vector<std::int64_t> parts =
        apportion(count, std::vector<double>(left_.begin(), left_.end()));
    for (std::size_t i = 0; i < parts.size(); ++i) {
      taken[i] += parts[i];
      left_[i] -= parts[i];
    }
  }

  Shares shares(GpuId source, const std::vector<std::int64_t>& taken) const {
    Shares own, others;
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      if (taken[i] == 0) continue;
      (placement_.gpu_of(slots_[i]) == source ? own : others).push_back({slots_[i], taken[i]});
    }
    own.insert(own.end(), others.begin(), others.end());
    return own.empty() ? Shares{{slots_.front(), 1}} : own;
  }

 private:
  const Placement& placement_;
  const std::vector<SlotId>& slots_;
  std::vector<std::int64_t> left_;
};

/// Fewest replicas first, of equal ones the lowest expert.
std::vector<ExpertId> ascending(std::span<const int> replicas) {
  std::vector<int> negated;
  for (const int count : replicas) negated.push_back(-count);
  return descending<ExpertId>(negated);
}

}  // namespace

std::vector<int> replicas(std::span<const double> loads, const Shape& shape, int least) {
  const auto experts = static_cast<int>(loads.size());
  const int slots = shape.nodes * shape.slots_per_node;
  if (experts < 1 || least < 1 || least > shape.nodes || experts * least > slots) {
    throw Error(
        fmt::format("Lazarus cannot place {} experts, {} or more times each, in {} x {} slots",
                    experts, least, shape.nodes, shape.slots_per_node));
  }
  const double total = std::accumulate(loads.begin(), loads.end(), 0.0);
  std::vector<double> share(loads.size(), static_cast<double>(slots) / experts);
  std::vector<int> counts(loads.size());
  for (std::size_t e = 0; e < loads.size(); ++e) {
    if (total > 0) share[e] = slots * loads[e] / total;
    counts[e] = std::clamp(static_cast<int>(std::floor(share[e])), least, shape.nodes);
  }
  int rest =
      std::min(slots, experts * shape.nodes) - std::accumulate(counts.begin(), counts.end(), 0);
  for (const int step = rest > 0 ? 1 : -1; rest != 0; rest -= step) {
    const int bound = step > 0 ? shape.nodes : least;
    std::size_t best = loads.size();
    for (std::size_t e = 0; e < loads.size(); ++e) {
      if (counts[e] == bound) continue;
      if (best == loads.size() ||
          step * (share[e] - counts[e]) > step * (share[best] - counts[best])) {
        best = e;
      }
    }
    counts[best] += step;
  }
  return counts;
}

SlotTable place(std::span<const int> replicas, const Shape& shape) {
  const int total = std::accumulate(replicas.begin(), replicas.end(), 0);
  const int most = replicas.empty() ? 0 : *std::max_element(replicas.begin(), replicas.end());
  if (total > shape.nodes * shape.slots_per_node || most > shape.nodes) {
    throw Error(fmt::format("Lazarus cannot place {} replicas, {} of one expert, in {} x {} slots",
                            total, most, shape.nodes, shape.slots_per_node));
  }
  Nodes nodes(replicas, shape);
  std::vector<std::vector<std::size_t>> cores;
  for (const ExpertId expert : ascending(replicas)) {
    const int count = replicas[expert.index()];
    const auto same = std::find_if(cores.rbegin(), cores.rend(), [&](const auto& core) {
      return std::ssize(core) <= count && nodes.fits(expert, core);
    });
    if (same != cores.rend()) {
      nodes.place_core(expert, *same);
    } else {
      cores.push_back(nodes.roomiest(count));
      nodes.place_core(expert, cores.back());
    }
  }
  nodes.place_rest();
  return nodes.take();
}

std::vector<std::vector<Shares>> shares(const Placement& placement, const LoadMatrix& loads) {
  const std::vector<std::int64_t> totals = loads.per_expert();
  IdVector<GpuId, std::vector<Shares>> all(loads.sources());
  for (const ExpertId e : ids<ExpertId>(loads.experts())) {
    Quotas quotas(placement, e, totals[e.index()]);
    IdVector<GpuId, std::vector<std::int64_t>> taken;
    for (const GpuId s : all.ids()) taken.push_back(quotas.take_own(s, loads.at(s, e)));
    for (const GpuId s : all.ids()) {
      const std::int64_t own = std::accumulate(taken[s].begin(), taken[s].end(), std::int64_t{0});
      quotas.take_rest(loads.at(s, e) - own, taken[s]);
      all[s].push_back(quotas.shares(s, taken[s]));
    }
  }
  return std::move(all).take();
}

}  // namespace moesim::lazarus
