// SPDX-License-Identifier: Apache-2.0
#include "sim/policy/placement/training/expert_copies.h"

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
  std::ranges::rotate(order, std::ranges::upper_bound(order, s.home));
  GpuId from = s.home;
  for (const GpuId to : order) {
    phases[0].push_back({s.expert, from, to, s.bytes});
    from = to;
  }
}

void by_node(const Spread& s, const Topology& topology, Phases& phases) {
  std::map<int, std::vector<GpuId>> nodes;
  for (const GpuId to : s.to) nodes[topology.host_of(to)].push_back(to);
  for (const auto& [node, members] : nodes) {
    if (node == topology.host_of(s.home)) {
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
  const int weight = size_of(model.weights);
  std::vector<ExpertMemory> memory;
  for (int g = 0; g < placement.gpus(); ++g) {
    const auto home = static_cast<std::int64_t>(homes[static_cast<std::size_t>(g)].size());
    const std::int64_t copies = placement.slots_on(GpuId(g)) - home;
    memory.push_back({Bytes(parameters * home * weight),
                      Bytes(parameters * home * context.state.gradient),
                      Bytes(parameters * home * context.state.optimizer),
                      Bytes(parameters * copies * (weight + context.state.gradient))});
  }
  return memory;
}

Assignment own_or_home(const PlacementContext& context, const SlotTable& homes,
                       Placement placement) {
  std::vector<std::vector<SlotId>> slot_of;
  for (int first = 0; first < context.gpus; first += context.ep) {
    std::vector<SlotId> home(static_cast<std::size_t>(context.experts));
    for (int g = first; g < first + context.ep; ++g) {
      const int slot = placement.first_slot(GpuId(g)).value;
      const auto& own = homes[static_cast<std::size_t>(g)];
      for (std::size_t i = 0; i < own.size(); ++i) {
        home[own[i].index()] = SlotId(slot + static_cast<std::int64_t>(i));
      }
    }
    for (int g = first; g < first + context.ep; ++g) {
      auto& mine = slot_of.emplace_back(home);
      const int slot = placement.first_slot(GpuId(g)).value;
      for (int i = slot; i < slot + placement.slots_on(GpuId(g)); ++i) {
        mine[placement.expert_in(SlotId(i)).index()] = SlotId(i);
      }
    }
  }
  return Assignment(std::move(placement), std::move(slot_of));
}

}  // namespace

ByteMatrix off_gpu_traffic(std::span<const ExpertTransfer> transfers, int gpus) {
  std::vector<std::map<GpuId, std::int64_t>> rows(static_cast<std::size_t>(gpus));
  for (const ExpertTransfer& t : transfers) {
    if (t.from != t.to) rows[t.from.index()][t.to] += t.bytes.value;
  }
  std::int64_t unit = 0;
  for (const auto& row : rows) {
    for (const auto& entry : row) unit = std::gcd(unit, entry.second);
  }
  ByteMatrix traffic{Bytes(std::max<std::int64_t>(unit, 1))};
  for (const auto& row : rows) {
    std::vector<ByteMatrix::Entry> entries;
    for (const auto& [to, bytes] : row) {
      entries.push_back({to, static_cast<std::uint32_t>(bytes / unit)});
    }
    traffic.add_row(entries);
  }
  return traffic;
}

std::vector<ParamExchange> broadcast(const std::string& name,
                                     std::span<const ExpertTransfer> copies,
                                     const Topology& topology, Broadcast how) {
  Phases phases(2);
  if (how == Broadcast::direct) {
    phases[0].assign(copies.begin(), copies.end());
  } else {
    for (const Spread& spread : spreads_of(copies)) {
      how == Broadcast::chain ? chain(spread, phases) : by_node(spread, topology, phases);
    }
  }
  std::vector<ParamExchange> exchanges;
  for (const auto& transfers : phases) {
    ByteMatrix traffic = off_gpu_traffic(transfers, topology.gpu_count());
    if (traffic.entries() > 0) exchanges.push_back({name, std::move(traffic), {}, {}});
  }
  return exchanges;
}

std::vector<ParamExchange> reduction(const std::string& name,
                                     std::span<const ExpertTransfer> copies,
                                     const Topology& topology, Broadcast how) {
  std::vector<ExpertTransfer> outwards(copies.begin(), copies.end());
  for (ExpertTransfer& t : outwards) std::swap(t.from, t.to);
  auto exchanges = broadcast(name, outwards, topology, how);
  std::ranges::reverse(exchanges);
  for (ParamExchange& e : exchanges) e.traffic = e.traffic.transposed();
  return exchanges;
}

std::vector<ExpertTransfer> from_rank(std::vector<ExpertTransfer> transfers, int first) {
  for (ExpertTransfer& t : transfers) {
    t.from = GpuId(t.from.value + first);
    t.to = GpuId(t.to.value + first);
  }
  return transfers;
}

LayerDecision with_copies(const PlacementContext& context, const SlotTable& homes,
                          std::span<const StepCopies> runs, const CopyOptions& options) {
  Assignment assignment = own_or_home(context, homes, Placement(context.experts, joined(runs)));
  return with_copies(context, homes, runs, options, std::move(assignment));
}

LayerDecision with_copies(const PlacementContext& context, const SlotTable& homes,
                          std::span<const StepCopies> runs, const CopyOptions& options,
                          Assignment assignment) {
  LayerDecision decision(std::move(assignment));
  std::vector<ExpertTransfer> gather, reduce;
  for (std::size_t r = 0; r < runs.size(); ++r) {
    const int first = static_cast<int>(r) * context.ep;
    std::ranges::copy(from_rank(runs[r].gather, first), std::back_inserter(gather));
    std::ranges::copy(from_rank(runs[r].reduce, first), std::back_inserter(reduce));
  }
  decision.gather = broadcast("gather", gather, context.topology, options.how);
  if (options.release) {
    decision.regather = broadcast("regather", gather, context.topology, options.how);
  }
  decision.reduce = reduction("reduce", reduce, context.topology, options.how);
  decision.memory = memory_of_copies(context, homes, decision.assignment.placement());
  decision.gradient_homes = homes;
  return decision;
}

SlotTable joined(std::span<const StepCopies> runs) {
  SlotTable table;
  for (const StepCopies& run : runs) std::ranges::copy(run.table, std::back_inserter(table));
  return table;
}

SlotTable run_of(const SlotTable& table, int first, int ep) {
  return {table.begin() + first, table.begin() + first + ep};
}

Bytes weight_bytes(const PlacementContext& context) {
  return Bytes(context.model.expert_parameters() * size_of(context.model.weights));
}

Bytes gradient_bytes(const PlacementContext& context) {
  return Bytes(context.model.expert_parameters() * context.state.gradient);
}

}  // namespace moesim
