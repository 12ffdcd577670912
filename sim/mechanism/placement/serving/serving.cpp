// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/serving/serving.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace moesim {
namespace {

/// Calls use(expert, home, holder) for every holder of an expert in an EP group that is not the
/// home: the first holder, or the rank of `contiguous`.
template <class Use>
void for_copies(const SlotTable& table, int experts, bool home_is_first, const Use& use) {
  std::vector<std::set<GpuId>> holders(static_cast<std::size_t>(experts));
  for (std::size_t r = 0; r < table.size(); ++r) {
    for (const ExpertId e : table[r]) {
      holders[e.index()].insert(GpuId(static_cast<std::int64_t>(r)));
    }
  }
  const auto ranks = static_cast<std::int64_t>(table.size());
  for (std::int64_t e = 0; e < experts; ++e) {
    const auto& of_expert = holders[static_cast<std::size_t>(e)];
    const GpuId home = home_is_first ? *of_expert.begin() : GpuId(e * ranks / experts);
    for (const GpuId rank : of_expert) {
      if (rank != home) use(ExpertId(e), home, rank);
    }
  }
}

std::vector<ExpertMemory> weights_in_slots(const SlotTable& table, const SlotTable& homes,
                                           const PlacementContext& context) {
  std::vector<ExpertMemory> memory(table.size());
  const std::int64_t parameters = context.model.expert_parameters();
  for (std::size_t g = 0; g < table.size(); ++g) {
    const std::int64_t held = parameters * std::ssize(table[g]);
    memory[g].weights = bytes_of(held, context.model.weights);
    if (!context.backward) continue;
    memory[g].gradients = Bytes(held * context.state.gradient);
    memory[g].optimizer = Bytes(parameters * std::ssize(homes[g]) * context.state.optimizer);
  }
  return memory;
}

/// Choices of the rank for every expert in token order, dropped ones left out: [expert].
std::vector<std::vector<Choice>> choices_of(const GroupStep& at, GpuId rank, int experts) {
  std::vector<std::vector<Choice>> choices(static_cast<std::size_t>(experts));
  std::int64_t token = 0;
  for (const TokenRun& run : at.batch.ranks[rank.index()]) {
    for (std::int64_t t = run.first; t < run.first + run.count; ++t, ++token) {
      for (int k = 0; k < at.ids.top_k(); ++k) {
        const int expert = at.ids.at(t, k);
        if (expert >= experts) continue;  // dropped
        choices[static_cast<std::size_t>(expert)].push_back({token, k});
      }
    }
  }
  return choices;
}

}  // namespace

int slots_per_gpu(const PlacementContext& context, int given) {
  const int ranks = context.groups.size();
  const int slots = given > 0 ? given : (context.experts + ranks - 1) / ranks + 1;
  if (std::int64_t{slots} * ranks >= context.experts) return slots;
  throw Unsuitable(fmt::format("'{}' cannot place {} experts in {} slots on each of {} ranks",
                               context.who, context.experts, slots, ranks),
                   "more slots per GPU");
}

eplb::Shape eplb_shape(const PlacementContext& context, int slots, int groups) {
  const int per_gpu = slots_per_gpu(context, slots);
  const int ep = context.groups.size();
  if (groups < 1) groups = std::max(context.model.gate_groups, 1);
  const eplb::Shape shape{per_gpu * ep, groups, groups > 1 ? group_nodes(context).nodes : 1, ep};
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

Assignment assign_by_choice(const GroupStep& at, const Placement& slots,
                            const ChoiceShares& shares) {
  std::vector<std::vector<Shares>> all;
  for (int r = 0; r < slots.gpus(); ++r) {
    const auto choices = choices_of(at, GpuId(r), slots.experts());
    auto& of_rank = all.emplace_back();
    for (int e = 0; e < slots.experts(); ++e) {
      of_rank.push_back(shares(GpuId(r), ExpertId(e), choices[static_cast<std::size_t>(e)],
                               slots.slots_of(ExpertId(e))));
    }
  }
  return Assignment(slots, all);
}

void hold_slots(LayerDecision& decision, const PlacementContext& context, bool whole) {
  const EpGroups& groups = context.groups;
  const SlotTable table = decision.assignment.placement().table();
  const bool with_state = whole && context.backward;
  if (!with_state) {
    decision.gradient_homes =
        groups.in_every_group(contiguous_homes(context.experts, groups.size(), groups.size()));
    decision.memory = weights_in_slots(table, decision.gradient_homes, context);
  }
  if (!context.backward) return;
  const std::int64_t parameters = context.model.expert_parameters();
  const Bytes weights = bytes_of(parameters, context.model.weights);
  const Bytes gradients(parameters * context.state.gradient);
  std::vector<ExpertTransfer> out, back;
  for (int g = 0; g < groups.count(); ++g) {
    for_copies(groups.part(table, g), context.experts, with_state,
               [&](ExpertId expert, GpuId home, GpuId rank) {
                 const GpuId from = groups.gpu(g, home), to = groups.gpu(g, rank);
                 out.push_back({expert, from, to, with_state ? gradients : weights});
                 back.push_back({expert, to, from, gradients});
               });
  }
  if (!with_state) decision.migrate.clear();
  if (out.empty()) return;
  decision.reduce.push_back({"sum-copies", groups.traffic(back), {}, {}});
  auto& list = with_state ? decision.reduce : decision.gather;
  list.push_back({with_state ? "share-sums" : "refresh", groups.traffic(out), {}, {}});
}

Serving::Serving(const PlacementContext& context, const PlanningOptions& options,
                 const SlotTable& initial, Keeps keeps)
    : GroupPlanner(context, options, initial, keeps) {}

void Serving::finish(LayerDecision& decision, const SlotTable&, std::span<const StepSlots>) const {
  hold_slots(decision, context(), options().moves_optimizer);
}

}  // namespace moesim
