// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/training/expert_copies.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

namespace moesim {
namespace {

/// One expert of one home, and who gets it.
struct Spread {
  ExpertId expert;
  GpuId home;
  Bytes bytes;
  std::vector<GpuId> to;  // ascending
};

std::vector<Spread> spreads_of(std::span<const ExpertTransfer> copies) {
  std::map<std::pair<GpuId, ExpertId>, Spread> by_expert;
  for (const ExpertTransfer& t : copies) {
    if (t.from == t.to) continue;
    Spread& spread =
        by_expert.try_emplace({t.from, t.expert}, Spread{t.expert, t.from, t.bytes, {}})
            .first->second;
    spread.to.push_back(t.to);
  }
  std::vector<Spread> spreads;
  for (auto& entry : by_expert) {
    std::ranges::sort(entry.second.to);
    spreads.push_back(std::move(entry.second));
  }
  return spreads;
}

using Phases = std::vector<std::vector<ExpertTransfer>>;

/// Every receiver hands on to the one after it, counted from the home.
void chain(const Spread& s, Phases& phases) {
  std::vector<GpuId> order = s.to;
  std::rotate(order.begin(), std::ranges::upper_bound(order, s.home), order.end());
  GpuId from = s.home;
  for (const GpuId to : order) {
    phases[0].push_back({s.expert, from, to, s.bytes});
    from = to;
  }
}

void by_node(const Spread& s, const EpGroups& groups, Phases& phases) {
  const auto node_of = [&](GpuId gpu) { return groups.network().host_of(gpu); };
  std::map<int, std::vector<GpuId>> nodes;
  for (const GpuId to : s.to) nodes[node_of(to)].push_back(to);
  for (const auto& [node, members] : nodes) {
    if (node == node_of(s.home)) {
      for (const GpuId to : members) phases[0].push_back({s.expert, s.home, to, s.bytes});
      continue;
    }
    const GpuId first = members[s.expert.index() % members.size()];
    phases[0].push_back({s.expert, s.home, first, s.bytes});
    for (const GpuId to : members) {
      if (to != first) phases[1].push_back({s.expert, first, to, s.bytes});
    }
  }
}

std::vector<ExpertMemory> memory_of_copies(const PlacementContext& context, const SlotTable& homes,
                                           const Placement& placement) {
  const MoeModel& model = context.model;
  const std::int64_t parameters = model.expert_parameters();
  std::vector<ExpertMemory> memory;
  for (int g = 0; g < placement.gpus(); ++g) {
    const auto home = static_cast<std::int64_t>(homes[static_cast<std::size_t>(g)].size());
    const std::int64_t copies = placement.slots_on(GpuId(g)) - home;
    memory.push_back({bytes_of(parameters * home, model.weights),
                      Bytes(parameters * home * context.state.gradient),
                      Bytes(parameters * home * context.state.optimizer),
                      bytes_of(parameters * copies, model.weights) +
                          Bytes(parameters * copies * context.state.gradient)});
  }
  return memory;
}

}  // namespace

std::vector<ParamExchange> broadcast(const std::string& name,
                                     std::span<const ExpertTransfer> copies, const EpGroups& groups,
                                     Broadcast how) {
  Phases phases(2);
  if (how == Broadcast::direct) {
    phases[0].assign(copies.begin(), copies.end());
  } else {
    for (const Spread& spread : spreads_of(copies)) {
      how == Broadcast::chain ? chain(spread, phases) : by_node(spread, groups, phases);
    }
  }
  std::vector<ParamExchange> exchanges;
  for (const auto& transfers : phases) {
    ByteMatrix traffic = groups.traffic(transfers);
    if (traffic.entries() > 0) exchanges.push_back({name, std::move(traffic), {}, {}});
  }
  return exchanges;
}

std::vector<ParamExchange> reduction(const std::string& name,
                                     std::span<const ExpertTransfer> copies, const EpGroups& groups,
                                     Broadcast how) {
  std::vector<ExpertTransfer> outwards(copies.begin(), copies.end());
  for (ExpertTransfer& t : outwards) std::swap(t.from, t.to);
  auto exchanges = broadcast(name, outwards, groups, how);
  std::ranges::reverse(exchanges);
  for (ParamExchange& e : exchanges) e.traffic = e.traffic.transposed();
  return exchanges;
}

void move_copies(LayerDecision& decision, const PlacementContext& context, const SlotTable& homes,
                 std::span<const StepSlots> steps, const CopyOptions& options) {
  const EpGroups& groups = context.groups;
  std::vector<ExpertTransfer> gather, reduce;
  for (std::size_t g = 0; g < steps.size(); ++g) {
    const int group = static_cast<int>(g);
    std::ranges::copy(groups.lifted(steps[g].gather, group), std::back_inserter(gather));
    std::ranges::copy(groups.lifted(steps[g].reduce, group), std::back_inserter(reduce));
  }
  decision.gather = broadcast("gather", gather, groups, options.how);
  if (options.release) decision.regather = broadcast("regather", gather, groups, options.how);
  decision.reduce = reduction("reduce", reduce, groups, options.how);
  decision.memory = memory_of_copies(context, homes, decision.assignment.placement());
  decision.gradient_homes = homes;
}

Assignment own_or_home(const SlotTable& homes, Placement slots) {
  std::vector<SlotId> home(static_cast<std::size_t>(slots.experts()));
  for (std::size_t r = 0; r < homes.size(); ++r) {
    const std::int64_t first = slots.first_slot(GpuId(static_cast<std::int64_t>(r))).value;
    for (std::size_t i = 0; i < homes[r].size(); ++i) {
      home[homes[r][i].index()] = SlotId(first + static_cast<std::int64_t>(i));
    }
  }
  std::vector<std::vector<SlotId>> slot_of(homes.size(), home);
  for (int s = 0; s < slots.slots(); ++s) {
    slot_of[slots.gpu_of(SlotId(s)).index()][slots.expert_in(SlotId(s)).index()] = SlotId(s);
  }
  return Assignment(std::move(slots), std::move(slot_of));
}

SlotTable contiguous_homes(const PlacementContext& context) {
  const int ranks = context.groups.size();
  return contiguous_placement(context.experts, ranks, ranks).table();
}

Bytes weight_bytes(const PlacementContext& context) {
  return bytes_of(context.model.expert_parameters(), context.model.weights);
}

Bytes gradient_bytes(const PlacementContext& context) {
  return Bytes(context.model.expert_parameters() * context.state.gradient);
}

Copier::Copier(const PlacementContext& context, const CopyOptions& copies,
               const PlanningOptions& options, Keeps keeps)
    : GroupPlanner(context, options, contiguous_homes(context), keeps), copies_(copies) {}

Assignment Copier::assign(const GroupStep& at, Placement slots) {
  return own_or_home(at.slots, std::move(slots));
}

void Copier::finish(LayerDecision& decision, const SlotTable& homes,
                    std::span<const StepSlots> steps) const {
  move_copies(decision, context(), homes, steps, copies_);
}

}  // namespace moesim
