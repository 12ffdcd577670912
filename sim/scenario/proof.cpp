// SPDX-License-Identifier: Apache-2.0
#include "sim/scenario/proof.h"

#include <fmt/format.h>

#include <map>
#include <tuple>

#include "sim/base/error.h"

namespace moesim {
namespace {

/// A token exchange's place in a step: layer, pass, stage, microbatch, chunk.
using MovedKey = std::tuple<int, Pass, Stage, int, int>;
using Moved = std::map<MovedKey, std::int64_t>;  // bytes

/// What is done again in the backward pass is not part of a layer by itself.
Moved moved_in(const Plan& plan) {
  Moved moved;
  for (const Op& op : plan.ops) {
    const bool tokens = op.exchange() != nullptr && carries_tokens(op.stream) &&
                        (op.key.stage == Stage::dispatch || op.key.stage == Stage::combine);
    if (!tokens || op.key.role == Role::recompute) continue;
    moved[{op.key.layer, op.key.pass, op.key.stage, op.key.microbatch, op.key.chunk}] +=
        op.exchange()->traffic.total().value;
  }
  return moved;
}

void require_same(const Moved& step, const Plan& layer) {
  for (const auto& [key, bytes] : moved_in(layer)) {
    const auto in_step = step.find(key);
    const std::int64_t there = in_step == step.end() ? 0 : in_step->second;
    if (there == bytes) continue;
    throw Error(fmt::format("layer {}, microbatch {}: the step moves {} bytes, its tokens need {}",
                            std::get<0>(key), std::get<3>(key), there, bytes));
  }
}

}  // namespace

LayerRouting routing_of(const PlannedLayer& layer) {
  LayerRouting routing{layer.number, {}, layer.chosen, &layer.assignment()};
  for (std::size_t rank = 0; rank < layer.batch->ranks.size(); ++rank) {
    for (const TokenRun& run : layer.batch->ranks[rank]) {
      routing.source.insert(routing.source.end(), static_cast<std::size_t>(run.count),
                            GpuId(static_cast<std::int64_t>(rank)));
    }
  }
  return routing;
}

std::vector<LayerRouting> routing_of(const PlannedStep& planned) {
  std::vector<LayerRouting> routing;
  for (const PlannedLayer& layer : planned.layers) routing.push_back(routing_of(layer));
  return routing;
}

void prove_delivery(const PlannedStep& planned) {
  check_delivery(planned.plan, routing_of(planned));
}

std::size_t prove_each_layer(Planner& planner, const PlannedStep& planned) {
  const Moved moved = moved_in(planned.plan);
  for (std::size_t i = 0; i < planned.layers.size(); ++i) {
    const PlannedStep layer = planner.layer_with_rows(planned, i);
    prove_delivery(layer);
    require_same(moved, layer.plan);
  }
  return planned.layers.size();
}

}  // namespace moesim
