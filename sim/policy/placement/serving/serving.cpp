// SPDX-License-Identifier: Apache-2.0
#include "sim/policy/placement/serving/serving.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "sim/balance/serving/moves.h"
#include "sim/balance/training/owners.h"
#include "sim/policy/placement/replica_use.h"

namespace moesim {
namespace {

SlotTable part_of(const SlotTable& table, int run, int ep) {
  const auto begin = table.begin() + static_cast<std::ptrdiff_t>(run) * ep;
  return {begin, begin + ep};
}

void append(SlotTable& table, const SlotTable& part) {
  table.insert(table.end(), part.begin(), part.end());
}

/// Calls use(expert, home, holder) for every holder of an expert in its run that is not the home:
/// the first holder, or the rank of `contiguous`.
template <class Use>
void for_copies(const Placement& placement, int ep, bool home_is_first, const Use& use) {
  for (int first = 0; first < placement.gpus(); first += ep) {
    for (int e = 0; e < placement.experts(); ++e) {
      std::set<GpuId> holders;
      for (const SlotId slot : placement.slots_of(ExpertId(e))) {
        const GpuId gpu = placement.gpu_of(slot);
        if (gpu.value / ep == first / ep) holders.insert(gpu);
      }
      if (holders.empty()) continue;
      const GpuId home = home_is_first ? *holders.begin()
                                       : GpuId(first + std::int64_t{e} * ep / placement.experts());
      for (const GpuId gpu : holders) {
        if (gpu != home) use(ExpertId(e), home, gpu);
      }
    }
  }
}

std::vector<ExpertMemory> weights_in_slots(const Placement& placement,
                                           const PlacementContext& context) {
  std::vector<ExpertMemory> memory(static_cast<std::size_t>(placement.gpus()));
  const std::int64_t parameters = context.model.expert_parameters();
  for (int g = 0; g < placement.gpus(); ++g) {
    ExpertMemory& gpu = memory[static_cast<std::size_t>(g)];
    const std::int64_t held = parameters * placement.slots_on(GpuId(g));
    gpu.weights = Bytes(held * size_of(context.model.weights));
    if (context.backward) gpu.gradients = Bytes(held * context.state.gradient);
  }
  if (!context.backward) return memory;
  for (int first = 0; first < placement.gpus(); first += context.ep) {
    for (std::int64_t e = 0; e < placement.experts(); ++e) {
      memory[static_cast<std::size_t>(first + e * context.ep / placement.experts())].optimizer +=
          Bytes(parameters * context.state.optimizer);
    }
  }
  return memory;
}

/// Choices of the rank for every expert in token order, dropped ones left out: [expert].
std::vector<std::vector<Choice>> choices_of(const LayerRoutingNow& now, GpuId rank, int experts) {
  std::vector<std::vector<Choice>> choices(static_cast<std::size_t>(experts));
  std::int64_t token = 0;
  for (const TokenRun& run : now.batch.ranks[rank.index()]) {
    for (std::int64_t t = run.first; t < run.first + run.count; ++t, ++token) {
      for (int k = 0; k < now.ids.top_k(); ++k) {
        const int expert = now.ids.at(t, k);
        if (expert >= experts) continue;  // dropped
        choices[static_cast<std::size_t>(expert)].push_back({token, k});
      }
    }
  }
  return choices;
}

}  // namespace

RunShape run_shape(const PlacementContext& context, const std::string& who) {
  const int host = unless_unsuitable([&] { return gpus_per_host(context.topology, who); });
  if (context.ep % host == 0) return {context.ep / host, host};
  if (host % context.ep == 0) return {1, context.ep};
  throw Unsuitable(fmt::format("'{}' cannot spread runs of {} ranks evenly over hosts of {} GPUs",
                               who, context.ep, host),
                   "an ep that divides the GPUs of a host, or is a multiple of them");
}

int slots_per_gpu(const PlacementContext& context, int given, const std::string& who) {
  const int slots = given > 0 ? given : (context.experts + context.ep - 1) / context.ep + 1;
  if (std::int64_t{slots} * context.ep >= context.experts) return slots;
  throw Unsuitable(fmt::format("'{}' cannot place {} experts in {} slots on each of {} ranks", who,
                               context.experts, slots, context.ep),
                   "more slots per GPU");
}

eplb::Shape eplb_shape(const PlacementContext& context, int slots, int groups,
                       const std::string& who) {
  const int per_gpu = slots_per_gpu(context, slots, who);
  const eplb::Shape shape{per_gpu * context.ep,
                          groups > 0 ? groups : std::max(context.model.gate_groups, 1),
                          run_shape(context, who).nodes, context.ep};
  const std::vector<double> even(static_cast<std::size_t>(context.experts), 1.0);
  unless_unsuitable([&] { return eplb::rebalance(even, shape); });
  return shape;
}

SlotTable slots_in_turn(int experts, int ranks, int slots) {
  SlotTable table(static_cast<std::size_t>(ranks));
  int next = 0;
  for (auto& gpu : table) {
    for (int s = 0; s < slots; ++s) gpu.emplace_back(next++ % experts);
  }
  return table;
}

LaggedOptions weights_only() {
  LaggedOptions options;
  options.moves_optimizer = false;
  return options;
}

Assignment assign_by_run(const Placement& placement, int ep, const RunShares& shares) {
  const SlotTable table = placement.table();
  std::vector<std::vector<Shares>> all;
  for (int run = 0; run < placement.gpus() / ep; ++run) {
    const SlotId first = placement.first_slot(GpuId(run * ep));
    for (auto& of_rank : shares(run, Placement(placement.experts(), part_of(table, run, ep)))) {
      for (Shares& of_expert : of_rank) {
        for (Share& share : of_expert) share.slot = SlotId(first.value + share.slot.value);
      }
      all.push_back(std::move(of_rank));
    }
  }
  return Assignment(placement, all);
}

Assignment assign_by_choice(const Placement& placement, int ep, const LayerRoutingNow& now,
                            const ChoiceShares& shares) {
  return assign_by_run(placement, ep, [&](int run, const Placement& slots) {
    std::vector<std::vector<Shares>> all;
    for (int rank = run * ep; rank < (run + 1) * ep; ++rank) {
      const auto choices = choices_of(now, GpuId(rank), slots.experts());
      auto& of_rank = all.emplace_back();
      for (int e = 0; e < slots.experts(); ++e) {
        of_rank.push_back(shares(GpuId(rank), ExpertId(e), choices[static_cast<std::size_t>(e)],
                                 slots.slots_of(ExpertId(e))));
      }
    }
    return all;
  });
}

void hold_slots(LayerDecision& decision, const PlacementContext& context, bool whole) {
  const Placement& placement = decision.assignment.placement();
  const bool with_state = whole && context.backward;
  if (!with_state) {
    decision.memory = weights_in_slots(placement, context);
    decision.gradient_homes = contiguous_homes(context.experts, context.gpus, context.ep);
  }
  if (!context.backward) return;
  const std::int64_t parameters = context.model.expert_parameters();
  const Bytes weights(parameters * size_of(context.model.weights));
  const Bytes gradients(parameters * context.state.gradient);
  std::vector<ExpertTransfer> out, back;
  for_copies(placement, context.ep, with_state, [&](ExpertId expert, GpuId home, GpuId gpu) {
    out.push_back({expert, home, gpu, with_state ? gradients : weights});
    back.push_back({expert, gpu, home, gradients});
  });
  if (!with_state) decision.migrate.clear();
  if (out.empty()) return;
  decision.reduce.push_back({"sum-copies", traffic_of(back, context.gpus), {}, {}});
  auto& list = with_state ? decision.reduce : decision.gather;
  list.push_back({with_state ? "share-sums" : "refresh", traffic_of(out, context.gpus), {}, {}});
}

Serving::Serving(const PlacementContext& context, const LaggedOptions& options,
                 const SlotTable& initial)
    : context_(context), options_(options), gpus_per_host_(unless_unsuitable([&] {
        return gpus_per_host(context.topology, "migration");
      })) {
  SlotTable all;
  for (int run = 0; run < runs(); ++run) append(all, initial);
  layers_.assign(static_cast<std::size_t>(context.layers), {std::move(all), 0});
}

Bytes Serving::slot_bytes() const {
  const bool state = options_.moves_optimizer && context_.backward;
  return Bytes(context_.model.expert_parameters() *
               (size_of(context_.model.weights) + (state ? context_.state.optimizer : 0)));
}

void Serving::move(LayerDecision& decision, const SlotTable& before, const SlotTable& after) const {
  std::vector<ExpertTransfer> transfers;
  for (const WeightMove& move : weight_moves(before, after, gpus_per_host_)) {
    transfers.push_back({move.expert, move.from, move.to, slot_bytes()});
  }
  if (!transfers.empty()) {
    decision.migrate.push_back({"migrate", traffic_of(transfers, context_.gpus), {}, {}});
  }
}

LayerDecision Serving::decide(const LayerRoutingNow& now) {
  Layer& layer = layers_[static_cast<std::size_t>(now.layer)];
  bool decides = false;
  SlotTable next;
  for (int run = 0; run < runs(); ++run) {
    SlotTable slots = part_of(layer.slots, run, context_.ep);
    if (layer.steps > 0) {
      if (auto wanted = replan(now.layer, run, layer.steps, slots)) {
        decides = true;
        slots = std::move(*wanted);
      }
    }
    append(next, slots);
  }
  LayerDecision decision(assign(Placement(context_.experts, next), now));
  decision.planned = decides;
  if (decides) decision.planning = options_.planning;
  decision.planning_blocks = options_.planning_blocks;
  decision.migrate_blocks = options_.migrate_blocks;
  if (next != layer.slots) move(decision, layer.slots, next);
  layer.slots = std::move(next);
  hold_slots(decision, context_, options_.moves_optimizer);
  finish(decision);
  ++layer.steps;
  for (int run = 0; run < runs(); ++run) {
    observe(now.layer, run, rows_of(now.loads, run * context_.ep, context_.ep));
  }
  observe_routing(now);
  return decision;
}

}  // namespace moesim
