// SPDX-License-Identifier: Apache-2.0
#include "sim/scenario/proof.h"

#include <fmt/format.h>

#include <map>
#include <tuple>
#include <utility>

#include "sim/base/error.h"

namespace moesim {
namespace {

/// Token exchanges of a layer in a microbatch: layer, chunk, microbatch.
using MovedIn = std::tuple<int, int, int>;
/// Bytes by pass and stage.
using Moved = std::map<std::pair<Pass, Stage>, std::int64_t>;

/// What is done again in the backward pass is not part of a layer by itself.
std::map<MovedIn, Moved> moved_in(const Plan& plan) {
  std::map<MovedIn, Moved> moved;
  for (const Op& op : plan.ops) {
    const OpKey& key = op.key;
    const bool tokens = op.exchange() != nullptr && carries_tokens(op.stream) &&
                        (key.stage == Stage::dispatch || key.stage == Stage::combine);
    if (!tokens || key.role == Role::recompute) continue;
    moved[{key.layer, key.chunk, key.microbatch}][{key.pass, key.stage}] +=
        op.exchange()->traffic.total().value;
  }
  return moved;
}

Error other_bytes(const MovedIn& in) {
  return Error(
      fmt::format("layer {}, microbatch {}: its exchanges move other bytes than its tokens "
                  "need",
                  std::get<0>(in), std::get<2>(in)));
}

/// By the microbatches that differ: those that replay the same one must move the same.
std::map<MovedIn, Moved> moved_by_distinct(const Plan& plan, int distinct) {
  std::map<MovedIn, Moved> result;
  for (const auto& [in, moved] : moved_in(plan)) {
    const auto& [layer, chunk, microbatch] = in;
    const auto [known, fresh] = result.try_emplace({layer, chunk, microbatch % distinct}, moved);
    if (!fresh && known->second != moved) throw other_bytes(in);
  }
  return result;
}

/// A layer as the step has it, but that GPUs do not share the tensors of its experts: what they
/// then pass to each other is not routing.
PlannedStep without_tensor_groups(const PlannedStep& planned, std::size_t layer) {
  PlannedStep only;
  only.plan.name = planned.plan.name;
  only.layers.push_back(planned.layers[layer]);
  only.layers.front().tensor_groups = nullptr;
  return only;
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
  const auto moved = moved_by_distinct(planned.plan, planner.microbatches().distinct);
  std::size_t proven = 0;
  for (std::size_t i = 0; i < planned.layers.size(); ++i) {
    const PlannedLayer& work = planned.layers[i];
    const auto of_step = moved.find({work.number, work.chunk, work.microbatch});
    // DualPipe's stages hold each layer twice, and a microbatch passes it once.
    if (of_step == moved.end() && planner.shape().pipeline.copies() > 1) continue;
    const PlannedStep layer = planner.layer_with_rows(without_tensor_groups(planned, i), 0);
    prove_delivery(layer);
    const auto of_layer = moved_in(layer.plan);
    const Moved needed = of_layer.empty() ? Moved() : of_layer.begin()->second;
    if (needed != (of_step == moved.end() ? Moved() : of_step->second)) {
      throw other_bytes({work.number, work.chunk, work.microbatch});
    }
    ++proven;
  }
  return proven;
}

}  // namespace moesim
