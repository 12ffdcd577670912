// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/training/hecate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "sim/base/error.h"
#include "sim/base/id_vector.h"

namespace moesim {
namespace {

/// One layer's slots while replicas are added.
class ReplicaSlots {
 public:
  ReplicaSlots(SlotTable table, std::size_t experts, std::vector<int> free_slots, int gpus_per_node)
      : table_(std::move(table)),
        free_(std::move(free_slots)),
        per_node_(static_cast<std::size_t>(gpus_per_node)),
        holds_(experts * table_.size()),
        node_free_(table_.size() / per_node_),
        node_copies_(experts * node_free_.size()),
        copies_(experts) {
    for (std::size_t gpu = 0; gpu < table_.size(); ++gpu) {
      node_free_[gpu / per_node_] += free_[gpu];
      for (const ExpertId e : table_[gpu]) hold(gpu, e);
    }
  }

  int copies(ExpertId e) const { return copies_[e.index()]; }
  const SlotTable& table() const { return table_; }

  /// Adds a replica of an expert; none when no GPU without it has a slot left.
  std::optional<GpuId> add(ExpertId e) {
    std::optional<std::size_t> best;
    for (std::size_t gpu = 0; gpu < table_.size(); ++gpu) {
      if (free_[gpu] == 0 || holds_[e.index() * table_.size() + gpu]) continue;
      if (!best || order(e, gpu) < order(e, *best)) best = gpu;
    }
    if (!best) return std::nullopt;
    --free_[*best];
    --node_free_[*best / per_node_];
    table_[*best].push_back(e);
    hold(*best, e);
    return GpuId(static_cast<std::int64_t>(*best));
  }

 private:
  std::tuple<int, int, std::size_t, int> order(ExpertId e, std::size_t gpu) const {
    const std::size_t node = gpu / per_node_;
    return {node_copies_[e.index() * node_free_.size() + node], -node_free_[node], node,
            -free_[gpu]};
  }
  void hold(std::size_t gpu, ExpertId e) {
    holds_[e.index() * table_.size() + gpu] = true;
    ++node_copies_[e.index() * node_free_.size() + gpu / per_node_];
    ++copies_[e.index()];
  }

  SlotTable table_;
  std::vector<int> free_;
  std::size_t per_node_;
  std::vector<bool> holds_;       // [expert][gpu]
  std::vector<int> node_free_;    // [node]
  std::vector<int> node_copies_;  // [expert][node]
  std::vector<int> copies_;       // [expert]
};

void check_nodes(std::size_t gpus, int gpus_per_node) {
  if (gpus_per_node < 1 || gpus % static_cast<std::size_t>(gpus_per_node) != 0) {
    throw Error(fmt::format("{} GPUs do not form nodes of {}", gpus, gpus_per_node));
  }
}

void check(const SlotTable& table, std::size_t experts, std::span<const std::int64_t> loads,
           const HecateLimits& limits) {
  check_nodes(table.size(), limits.gpus_per_node);
  if (experts != loads.size() || limits.free_slots.size() != table.size()) {
    throw Error(
        fmt::format("loads of {} experts and free slots of {} GPUs for {} experts on {} "
                    "GPUs",
                    loads.size(), limits.free_slots.size(), experts, table.size()));
  }
}

/// Adds replicas to a table that may have some already.
Replication replicate(const SlotTable& table, std::span<const GpuId> owners,
                      std::span<const std::int64_t> loads, const HecateLimits& limits) {
  const int top = hidden_experts(limits, static_cast<int>(owners.size()));
  std::vector<ExpertId> experts = heaviest_first(loads);
  experts.resize(top);
  std::vector<int> free_slots = limits.free_slots;
  for (int& n : free_slots) n = std::clamp(n, 0, top);
  const bool everywhere = std::ranges::all_of(free_slots, [&](int n) { return n == top; });
  ReplicaSlots spread(table, owners.size(), free_slots, limits.gpus_per_node);
  Replication result;
  const auto add = [&](ExpertId e) {
    const auto gpu = spread.add(e);
    if (!gpu) return false;
    const GpuId owner = owners[e.index()];
    result.gather.push_back({e, owner, *gpu, limits.parameters});
    result.reduce.push_back({e, *gpu, owner, limits.gradients});
    return true;
  };
  if (everywhere) {
    for (const ExpertId e : experts) {
      while (add(e)) continue;
    }
  } else {
    while (true) {  // until no expert with load finds a slot
      std::erase_if(experts, [&](ExpertId e) { return loads[e.index()] == 0; });
      if (experts.empty()) break;
      const auto next = std::ranges::max_element(experts, {}, [&](ExpertId e) {
        return static_cast<double>(loads[e.index()]) / spread.copies(e);
      });
      if (!add(*next)) experts.erase(next);
    }
  }
  result.table = spread.table();
  return result;
}

/// Seconds that the busiest GPU sends or receives transfers.
Seconds exposed(std::span<const ExpertTransfer> transfers, std::size_t gpus,
                BytesPerSecond bandwidth) {
  std::vector<Bytes> sent(gpus), received(gpus);
  for (const ExpertTransfer& t : transfers) {
    sent[t.from.index()] += t.bytes;
    received[t.to.index()] += t.bytes;
  }
  return std::max(std::ranges::max(sent), std::ranges::max(received)) / bandwidth;
}

}  // namespace

int hidden_experts(const HecateLimits& limits, int experts) {
  const double hidden = std::floor(limits.dense.value * limits.bandwidth.value /
                                   static_cast<double>(limits.parameters.value));
  return static_cast<int>(std::min<double>(hidden, experts));
}

Replication hecate_replicate(const SlotTable& shards, std::span<const std::int64_t> loads,
                             const HecateLimits& limits) {
  const std::vector<GpuId> owners = owners_of(shards);
  check(shards, owners.size(), loads, limits);
  return replicate(shards, owners, loads, limits);
}

Assignment hecate_assignment(const SlotTable& table, int experts, int gpus_per_node) {
  check_nodes(table.size(), gpus_per_node);
  Placement placement(experts, table);
  std::vector<std::vector<Shares>> shares(table.size());
  for (std::size_t source = 0; source < table.size(); ++source) {
    for (int e = 0; e < experts; ++e) {
      Shares own, node, all;
      for (const SlotId slot : placement.slots_of(ExpertId(e))) {
        const std::size_t gpu = placement.gpu_of(slot).index();
        const auto per_node = static_cast<std::size_t>(gpus_per_node);
        if (gpu == source) own.push_back({slot, 1});
        if (gpu / per_node == source / per_node) node.push_back({slot, 1});
        all.push_back({slot, 1});
      }
      shares[source].push_back(!own.empty() ? own : !node.empty() ? node : all);
    }
  }
  return Assignment(std::move(placement), shares);
}

Seconds hecate_latency(const SlotTable& table, const LoadMatrix& loads, int gpus_per_node,
                       const HecateCosts& costs) {
  const Assignment assignment = hecate_assignment(table, loads.experts(), gpus_per_node);
  const Placement& placement = assignment.placement();
  std::vector<std::int64_t> computed(table.size()), received(table.size());
  for (const GpuId source : ids<GpuId>(loads.sources())) {
    std::vector<std::int64_t> slots(placement.slots());
    for (const ExpertId e : ids<ExpertId>(loads.experts())) {
      add_choices(assignment, source, e, loads.at(source, e), slots);
    }
    for (const SlotId slot : ids_of<SlotId>(slots)) {
      const GpuId gpu = placement.gpu_of(slot);
      computed[gpu.index()] += slots[slot.index()];
      if (gpu != source) received[gpu.index()] += slots[slot.index()];
    }
  }
  return costs.row * std::ranges::max(received) / costs.bandwidth * 4.0 +
         costs.per_choice * (3.0 * static_cast<double>(std::ranges::max(computed)));
}

std::optional<Replication> hecate_calibrate(const SlotTable& shards, const SlotTable& planned,
                                            const LoadMatrix& loads, const HecateLimits& spare,
                                            const HecateCosts& costs) {
  const std::vector<GpuId> owners = owners_of(shards, loads);
  const std::vector<std::int64_t> totals = loads.per_expert();
  check(planned, owners.size(), totals, spare);
  Replication again = replicate(planned, owners, totals, spare);
  const Seconds before = hecate_latency(planned, loads, spare.gpus_per_node, costs);
  const Seconds after = hecate_latency(again.table, loads, spare.gpus_per_node, costs) +
                        exposed(again.gather, planned.size(), spare.bandwidth);
  if (after >= before) return std::nullopt;
  return again;
}

}  // namespace moesim
