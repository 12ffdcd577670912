// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/serving/lazarus.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "sim/base/descending.h"
#include "sim/base/error.h"
#include "sim/base/id_vector.h"
#include "sim/mechanism/placement/serving/replica_choice.h"

namespace moesim::lazarus {
namespace {

using Node = std::vector<ExpertId>;

bool holds(const Node& node, ExpertId expert) {
  return std::find(node.begin(), node.end(), expert) != node.end();
}

bool has_room(const Node& node, const Shape& shape) {
  return node.size() < static_cast<std::size_t>(shape.slots_per_node);
}

/// Nodes by free slots, descending, then by id.
std::vector<std::size_t> by_room(const SlotTable& table) {
  std::vector<std::size_t> order(table.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return table[a].size() < table[b].size(); });
  return order;
}

/// Places one replica although every node with room holds the expert: a full node without it hands
/// an expert to the node with room. There is one: it holds more experts than that node.
void place_by_exchange(SlotTable& table, ExpertId expert, const Shape& shape) {
  const auto roomy = std::find_if(table.begin(), table.end(),
                                  [&](const Node& node) { return has_room(node, shape); });
  const auto full = std::find_if(table.begin(), table.end(),
                                 [&](const Node& node) { return !holds(node, expert); });
  const auto moved = std::find_if(full->begin(), full->end(),
                                  [&](ExpertId other) { return !holds(*roomy, other); });
  roomy->push_back(*moved);
  *moved = expert;
}

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
  SlotTable table(shape.nodes);
  std::vector<std::size_t> nodes;  // of the group: the heaviest expert's first
  int placed = 0;
  for (const ExpertId expert : descending<ExpertId>(replicas)) {
    if (placed++ % shape.slots_per_node == 0) nodes = by_room(table);
    int rest = replicas[expert.index()];
    for (const std::size_t node : nodes) {
      if (rest == 0) break;
      if (!has_room(table[node], shape)) continue;
      table[node].push_back(expert);
      --rest;
    }
    for (; rest > 0; --rest) place_by_exchange(table, expert, shape);
  }
  return table;
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
