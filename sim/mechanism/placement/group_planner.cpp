// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/group_planner.h"

#include <algorithm>
#include <cmath>

#include "sim/base/id_vector.h"
#include "sim/base/unsuitable.h"
#include "sim/mechanism/placement/moves.h"
#include "sim/mechanism/placement/replica_use.h"

namespace moesim {

GroupPlanner::GroupPlanner(const PlacementContext& context, const PlanningOptions& options,
                           SlotTable initial, Keeps keeps)
    : context_(context),
      options_(options),
      keeps_(keeps),
      moves_(context.layers, options.layers_per_step, options.experts_per_step) {
  if (context.told) options_.lag = 1;  // of passes, of which a recorded step has many
  if (asynchronous() && options.moves_optimizer && context.backward) {
    throw Unsuitable("asynchronous migration would move optimizer state while experts learn",
                     "payload: weights, or migration: blocks");
  }
  const SlotTable all = groups().in_every_group(initial);
  layers_.assign(static_cast<std::size_t>(context.layers), {all, 0});
  windows_.assign(layers_.size() * static_cast<std::size_t>(groups().count()),
                  Window<LoadMatrix>(options.window, options_.lag));
}

void GroupPlanner::start_with(int layer, const SlotTable& initial) {
  layers_[static_cast<std::size_t>(layer)].slots = groups().in_every_group(initial);
}

std::vector<FirstPlan> GroupPlanner::first_plans() const {
  if (!looks()) return {};
  return {{.after = reacts() ? 0 : options_.first_plan()}};
}

GroupLayer GroupPlanner::at(const LayerRoutingNow& now, int group, const Batch& batch,
                            const SlotTable& slots) const {
  const int before = layers_[static_cast<std::size_t>(now.layer)].steps;
  return {now.step,
          now.layer,
          group,
          cell(now.layer, group),
          begins(now) ? before : before - 1,
          begins(now),
          now.moment == Moment::rebalance,
          groups().gpu(group, GpuId(0)),
          groups().ranks(group),
          batch,
          slots};
}

std::optional<SlotTable> GroupPlanner::planned_slots(const LayerRoutingNow& now) {
  const Layer& layer = layers_[static_cast<std::size_t>(now.layer)];
  if ((needs_loads() && layer.steps < options_.lag) || moves_.pending(now.layer))
    return std::nullopt;
  SlotTable next;
  bool planned = false;
  for (int g = 0; g < groups().count(); ++g) {
    const Batch batch = groups().part(now.batch, g);
    SlotTable slots = groups().part(layer.slots, g);
    const GroupLayer before = at(now, g, batch, slots);
    std::optional<SlotTable> wanted;
    if (due(before)) wanted = plan(before);
    planned |= wanted.has_value();
    append(next, wanted ? std::move(*wanted) : std::move(slots));
  }
  if (!planned) return std::nullopt;
  return next;
}

LayerDecision GroupPlanner::decide(const LayerRoutingNow& now) {
  Layer& layer = layers_[static_cast<std::size_t>(now.layer)];
  std::optional<SlotTable> wanted;
  const bool plans = now.moment == Moment::step || now.moment == Moment::rebalance;
  const bool behind = asynchronous() && now.moment == Moment::step;  // slots come in later steps
  if (begins(now) && plans) {
    if (auto arrived = moves_.arrived(now.layer)) layer.slots = std::move(*arrived);
    wanted = planned_slots(now);
  }
  bool planned = wanted.has_value(), after_gate = false;
  SlotTable next = wanted && !behind ? std::move(*wanted) : layer.slots;
  std::vector<StepSlots> steps;
  std::vector<Assignment> assignments;
  std::vector<LoadMatrix> loads_by_group;
  for (int g = 0; g < groups().count(); ++g) {
    const Batch batch = groups().part(now.batch, g);
    const SlotTable slots = groups().part(next, g);
    loads_by_group.push_back(groups().part(now.loads, g));
    const GroupStep step{at(now, g, batch, slots), now.ids, loads_by_group.back()};
    steps.push_back(in_step(step));
    planned |= steps.back().planned;
    after_gate |= steps.back().after_gate;
    assignments.push_back(assign(step, Placement(context_.experts, steps.back().table)));
  }
  LayerDecision decision(Assignment::joined(assignments));
  decision.planned = planned;
  decision.after_gate = after_gate;
  decision.migration = options_.migration;
  decision.planning = planned ? options_.planning : Seconds(0);
  decision.planning_blocks = options_.planning_blocks;
  if (next != layer.slots) move(decision, layer.slots, next);
  layer.slots = std::move(next);
  if (behind) move_behind(decision, now.layer, std::move(wanted), begins(now));
  finish(decision, layer.slots, steps);
  if (behind) add_buffers(decision, now.layer);
  const bool remembers = now.moment == Moment::step || now.moment == Moment::seen;
  if (remembers) remember(now, std::move(loads_by_group));
  return decision;
}

void GroupPlanner::move_behind(LayerDecision& decision, int layer, std::optional<SlotTable> wanted,
                               bool begins) {
  if (wanted) {
    auto moves = nearest_moves(context(), slots(layer), *wanted, payload());
    moves_.plan(layer, std::move(*wanted), std::move(moves));
  }
  if (!begins) return;
  const auto moves = moves_.next(layer);
  if (!moves.empty()) decision.migrate.push_back({"migrate", groups().traffic(moves), {}, {}});
}

void GroupPlanner::add_buffers(LayerDecision& decision, int layer) const {
  const auto buffered = moves_.buffered(layer, static_cast<int>(decision.memory.size()));
  for (std::size_t g = 0; g < buffered.size(); ++g) decision.memory[g].gathered += buffered[g];
}

void GroupPlanner::remember(const LayerRoutingNow& now, std::vector<LoadMatrix> loads_by_group) {
  Layer& layer = layers_[static_cast<std::size_t>(now.layer)];
  for (int g = 0; g < groups().count(); ++g) {
    const Batch batch = groups().part(now.batch, g);
    const SlotTable slots = groups().part(layer.slots, g);
    LoadMatrix& loads = loads_by_group[static_cast<std::size_t>(g)];
    observe({at(now, g, batch, slots), now.ids, loads});
    if (loads.sources() == 0) continue;
    auto& window = windows_[cell(now.layer, g)];
    window.add(keeps_ == Keeps::totals ? loads.totals() : std::move(loads), begins(now));
  }
  if (begins(now)) ++layer.steps;
  observe_all(now, begins(now));
}

Assignment GroupPlanner::assign(const GroupStep&, Placement slots) {
  return Assignment(slots, slots.gpus());
}

std::vector<std::int64_t> GroupPlanner::loads_seen(std::size_t cell) const {
  if (seen(cell).empty())
    return std::vector<std::int64_t>(static_cast<std::size_t>(context_.experts));
  return seen(cell).sum().per_expert();
}

Bytes GroupPlanner::payload() const {
  const bool state = options_.moves_optimizer && context_.backward;
  const std::int64_t parameters = context_.model.expert_parameters();
  const std::int64_t whole = bytes_of(parameters, context_.model.weights).value +
                             (state ? parameters * context_.state.optimizer : 0);
  return Bytes(std::llround(static_cast<double>(whole) / compression()));
}

void GroupPlanner::move(LayerDecision& decision, const SlotTable& before,
                        const SlotTable& after) const {
  const auto moves = nearest_moves(context(), before, after, payload());
  if (moves.empty()) return;
  decision.migrate.push_back({"migrate", groups().traffic(moves), {}, {}});
}

void GroupPlanner::move_from(const Placer& before, int layer, LayerDecision& decision) const {
  const SlotTable& old = dynamic_cast<const GroupPlanner&>(before).slots(layer);
  decision.migration = options_.migration;
  decision.planning = options_.planning;
  decision.planning_blocks = options_.planning_blocks;
  if (old != slots(layer)) move(decision, old, slots(layer));
}

void append(SlotTable& table, SlotTable more) {
  std::move(more.begin(), more.end(), std::back_inserter(table));
}

std::vector<ExpertTransfer> nearest_moves(const PlacementContext& context, const SlotTable& before,
                                          const SlotTable& after, Bytes bytes) {
  std::vector<int> hosts;
  for (const GpuId gpu : ids_of<GpuId>(after)) hosts.push_back(context.groups.host_of(gpu));
  std::vector<ExpertTransfer> moves;
  for (const WeightMove& move : weight_moves(before, after, hosts)) {
    moves.push_back({move.expert, move.from, move.to, bytes});
  }
  return moves;
}

}  // namespace moesim
