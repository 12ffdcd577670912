// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/training/smart_moe.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/error.h"
#include "sim/base/id_vector.h"
#include "sim/mechanism/mechanisms.h"
#include "sim/mechanism/placement/training/permuting.h"

namespace moesim {
namespace {

SlotTable greedy(const SlotTable& current, std::span<const GpuId> owners,
                 std::span<const std::int64_t> history) {
  SlotTable table(current.size());
  std::vector<std::int64_t> loads(current.size());
  const auto has_room = [&](std::size_t gpu) { return table[gpu].size() < current[gpu].size(); };
  for (const ExpertId e : heaviest_first(history)) {
    std::size_t best = current.size();
    for (std::size_t gpu = 0; gpu < current.size(); ++gpu) {
      if (has_room(gpu) && (best == current.size() || loads[gpu] < loads[best])) best = gpu;
    }
    const std::size_t own = owners[e.index()].index();
    if (has_room(own) && loads[own] == loads[best]) best = own;
    table[best].push_back(e);
    loads[best] += history[e.index()];
  }
  return table;
}

/// Where every expert is, as (GPU, place among its slots).
IdVector<ExpertId, std::pair<GpuId, std::size_t>> places_of(const SlotTable& table,
                                                            std::int64_t experts) {
  IdVector<ExpertId, std::pair<GpuId, std::size_t>> places(experts);
  for (const GpuId gpu : ids_of<GpuId>(table)) {
    const std::vector<ExpertId>& slots = table[gpu.index()];
    for (std::size_t slot = 0; slot < slots.size(); ++slot) places[slots[slot]] = {gpu, slot};
  }
  return places;
}

}  // namespace

SmartMoeMapping smart_moe_map(const SlotTable& current, std::span<const std::int64_t> history,
                              Bytes parameters) {
  const std::vector<GpuId> owners = owners_of(current);
  if (owners.size() != history.size()) {
    throw Error(fmt::format("loads of {} experts for slots of {}", history.size(), owners.size()));
  }
  SmartMoeMapping mapping{greedy(current, owners, history), {}};
  if (std::ranges::max(gpu_loads(current, history)) <=
      std::ranges::max(gpu_loads(mapping.table, history))) {
    return {current, {}};
  }
  const auto from = places_of(current, std::ssize(history));
  const auto to = places_of(mapping.table, std::ssize(history));
  for (const ExpertId e : from.ids()) {
    if (from[e] == to[e]) continue;
    mapping.transfers.push_back({e, from[e].first, to[e].first, parameters});
  }
  return mapping;
}

// SmartMoE's online expert mapping: now and then the experts are dealt out anew, by their loads in
// the steps before. Zhai et al., USENIX ATC 2023; thu-pacman/SmartMoE-AE at e19b3a9.
namespace {

class SmartMoe final : public Permuting {
 public:
  using Permuting::Permuting;

 private:
  std::optional<SlotTable> plan(const GroupLayer& at) override {
    return smart_moe_map(at.slots, loads_seen(at.cell), Bytes(0)).table;
  }
};

}  // namespace

// interval (10): steps between decisions, the first one after as many; window (2): newest steps
// whose loads are summed; payload (weights): or state, with the optimizer's; migration (blocks) or
// overlapped; planning_time (0 s) of one decision, planning (hidden or blocks).
PlacementMaker read_smart_moe(const YamlMap& params) {
  PlanningOptions defaults;
  defaults.interval = 10;
  defaults.moves_optimizer = false;
  PlanningOptions options = read_move_options(params, defaults);
  options.first = options.interval;
  options.window = static_cast<int>(params.integer("window", {1, 1 << 20}, 2));
  return [options](const PlacementContext& context) {
    return std::make_unique<SmartMoe>(context, options);
  };
}

}  // namespace moesim
