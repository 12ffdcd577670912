// SPDX-License-Identifier: Apache-2.0
#include "sim/policy/placement/lagged.h"

#include <algorithm>

#include "sim/balance/serving/moves.h"
#include "sim/balance/training/owners.h"
#include "sim/policy/placement/replica_use.h"

namespace moesim {

LaggedOptions read_lagged_options(const YamlMap& params, LaggedOptions defaults) {
  constexpr Range steps{1, 1 << 20};
  LaggedOptions o = read_move_options(params, defaults);
  o.first = static_cast<int>(params.integer("first", steps, o.first));
  o.window = static_cast<int>(params.integer("window", steps, o.window));
  return o;
}

LaggedOptions read_move_options(const YamlMap& params, LaggedOptions defaults) {
  LaggedOptions o = read_transfer_options(params, defaults);
  o.interval = static_cast<int>(params.integer("interval", {1, 1 << 20}, o.interval));
  return o;
}

LaggedOptions read_transfer_options(const YamlMap& params, LaggedOptions o) {
  o.moves_optimizer =
      params.choice("payload", {"state", "weights"}, o.moves_optimizer ? 0 : 1) == 0;
  o.migrate_blocks =
      params.choice("migration", {"blocks", "overlapped"}, o.migrate_blocks ? 0 : 1) == 0;
  o.planning = params.seconds("planning_time", o.planning);
  o.planning_blocks =
      params.choice("planning", {"hidden", "blocks"}, o.planning_blocks ? 1 : 0) == 1;
  return o;
}

bool due(const LaggedOptions& options, int steps) {
  return steps >= options.first && (steps - options.first) % options.interval == 0;
}

LoadMatrix rows_of(const LoadMatrix& loads, int first, int count) {
  LoadMatrix rows(count, loads.experts());
  for (int source = 0; source < count; ++source) {
    const auto from = loads.row(GpuId(first + source));
    std::copy(from.begin(), from.end(), &rows.at(GpuId(source), ExpertId(0)));
  }
  return rows;
}

Lagged::Lagged(const PlacementContext& context, const LaggedOptions& options, SlotTable initial)
    : context_(context), options_(options) {
  layers_.assign(static_cast<std::size_t>(context.layers), {std::move(initial), {}, 0});
}

SlotTable Lagged::next_slots(int index, const Layer& layer) {
  LoadMatrix sum = layer.history.front();
  for (std::size_t i = 1; i < layer.history.size(); ++i) sum += layer.history[i];
  SlotTable slots;
  for (int first = 0; first < context_.gpus; first += context_.ep) {
    const auto begin = layer.slots.begin() + first;
    SlotTable run = replan(index, first / context_.ep, rows_of(sum, first, context_.ep),
                           SlotTable(begin, begin + context_.ep));
    std::move(run.begin(), run.end(), std::back_inserter(slots));
  }
  return slots;
}

Bytes Lagged::payload() const {
  const int per_parameter =
      size_of(context_.model.weights) + (options_.moves_optimizer ? context_.state.optimizer : 0);
  return Bytes(context_.model.expert_parameters() * per_parameter);
}

ParamExchange Lagged::migration(const SlotTable& before, const SlotTable& after) const {
  std::vector<ExpertTransfer> transfers;
  for (const WeightMove& move :
       weight_moves(before, after, gpus_per_host(context_.topology, "migration"))) {
    transfers.push_back({move.expert, move.from, move.to, payload()});
  }
  return {"migrate", traffic_of(transfers, context_.gpus), {}, {}};
}

LayerDecision Lagged::decide(const LayerRoutingNow& now) {
  Layer& layer = layers_[static_cast<std::size_t>(now.layer)];
  const bool decides = due(options_, layer.steps);
  std::vector<ParamExchange> migrate;
  if (decides) {
    SlotTable next = next_slots(now.layer, layer);
    if (next != layer.slots) migrate.push_back(migration(layer.slots, next));
    layer.slots = std::move(next);
  }
  LayerDecision decision(assign(Placement(context_.experts, layer.slots), now));
  decision.planned = decides;
  decision.migrate = std::move(migrate);
  decision.migrate_blocks = options_.migrate_blocks;
  decision.planning = decides ? options_.planning : Seconds(0);
  decision.planning_blocks = options_.planning_blocks;
  ++layer.steps;
  layer.history.push_back(now.loads);
  if (layer.history.size() > static_cast<std::size_t>(options_.window)) layer.history.pop_front();
  observe(now);
  return decision;
}

}  // namespace moesim
