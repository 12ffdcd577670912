// SPDX-License-Identifier: Apache-2.0
#include "sim/planner/iteration/replica_exchanges.h"

#include <algorithm>

#include "sim/base/rounding.h"
#include "sim/base/unsuitable.h"
#include "sim/planner/iteration/stage_parameters.h"

namespace moesim {
namespace {

OpKey key_of(OpKind kind, Stage stage, Pass pass, WorkCell cell) {
  return {.kind = kind,
          .pass = pass,
          .stage = stage,
          .microbatch = cell.microbatch,
          .chunk = cell.chunk};
}

}  // namespace

ReplicaExchanges::ReplicaExchanges(LayerReplicas replicas, std::vector<StageLayers*> layers,
                                   bool whole)
    : replicas_(std::move(replicas)), layers_(std::move(layers)), whole_(whole) {
  const IterationSpec& spec = replicas_.stage().options().spec;
  const auto unlike = [](const LayerReplicas::Groups& groups) {
    return !equal_nodes(groups.nodes);
  };
  if (spec.collective == ReplicaCollective::two_level &&
      (unlike(replicas_.sharers()) || unlike(replicas_.between_copies()))) {
    throw Error("replicas of dense parameters with unlike numbers on their nodes",
                "collective: two-level needs as many on each; ring has no such rule");
  }
}

std::int64_t ReplicaExchanges::dense_parameters(const StagePart& part) const {
  const StageSpace& stage = replicas_.stage();
  return whole_ ? moesim::dense_parameters(stage.model(), stage.shard().tp, part) : 0;
}

OpId ReplicaExchanges::add(std::string label, OpKey key, const StagePart& part, Stream stream,
                           Exchange exchange, const std::vector<OpId>& after, bool between_copies) {
  key.layer = layer_number(replicas_.stage().model(), part);
  key.part = static_cast<int>(part.kind) + (between_copies ? stage_part_kind_count : 0);
  return replicas_.stage().plan().add(
      {std::move(label), key, stream, replicas_.everybody(), after, std::move(exchange)});
}

Exchange ReplicaExchanges::in_groups(const LayerReplicas::Groups& groups,
                                     const CollectiveTraffic& of_group) const {
  Exchange exchange{replicas_.in_groups(groups, of_group.traffic), {}, false};
  exchange.rounds = of_group.rounds;
  exchange.ring = of_group.ring;
  return exchange;
}

const Exchange* ReplicaExchanges::experts(const StagePart& part, Moved moved,
                                          const ExpertRing& ring) {
  const int number = layer_number(replicas_.stage().model(), part);
  if (number < 0) return nullptr;
  const auto [known, is_new] = experts_.try_emplace({part.kind, part.number, moved});
  if (is_new) {
    std::vector<const LayerDecision*> copies;
    for (StageLayers* layers : layers_) {
      if (const LayerWork* work = layers->last_of(number)) copies.push_back(&work->decision);
    }
    const auto moves = copies.empty() ? std::nullopt : ring_of(copies, moved, ring);
    if (moves) known->second.traffic = replicas_.from_stages(moves->traffic);
  }
  return known->second.traffic.ranks() == 0 ? nullptr : &known->second;
}

std::optional<ParamExchange> ReplicaExchanges::ring_of(
    const std::vector<const LayerDecision*>& holders, Moved moved, ExpertRing ring) const {
  if (replicas_.copies() > 1) {
    if (holders.front()->gradients == GradientLayout::summed) {
      throw Unsuitable("dp_replicate, but a policy shares experts among all GPUs by itself",
                       "parallel.dp_replicate: 1, or leave that policy out");
    }
    using Among = ExpertRing::Among;
    ring.among = moved == Moved::sums ? Among::copies : Among::copy;
    ring.copy_of = &replicas_.stage().copies();
  }
  return layers_.front()->planner().expert_ring(holders, ring);
}

std::vector<OpId> ReplicaExchanges::gradients(const StagePart& part, WorkCell cell,
                                              const std::vector<OpId>& after) {
  const Spec& options = replicas_.stage().options();
  std::vector<OpId> added;
  // The sum between copies follows on the same stream.
  const auto sum = [&](OpKind kind, Moved moved, const std::string& name,
                       const Exchange& exchange) {
    const OpKey key = key_of(kind, Stage::reduce, Pass::backward, cell);
    added.push_back(add(name, key, part, Stream::dp, exchange, after, moved == Moved::sums));
  };
  const ExpertRing ring{"sum-gradients", options.state.gradient, options.spec.zero > 0 ? 1 : 2};
  const ExpertRing between{"sum-copies", options.state.gradient, 2};
  for (const auto& [moved, of_experts] :
       {std::pair(Moved::gradients, ring), {Moved::sums, between}}) {
    if (moved == Moved::sums && replicas_.copies() == 1) continue;
    const Exchange* exchange = experts(part, moved, of_experts);
    if (exchange != nullptr) sum(OpKind::gradient_sum, moved, of_experts.name, *exchange);
  }
  const Bytes bytes(dense_parameters(part) * options.state.gradient);
  if (bytes.value == 0) return added;
  for (const Moved moved : {Moved::gradients, Moved::sums}) {
    const bool between_copies = moved == Moved::sums;
    if ((between_copies ? replicas_.copies() : replicas_.dense_sharers()) == 1) continue;
    const auto [known, is_new] = dense_.try_emplace({part.kind, part.number, moved});
    if (is_new) known->second = between_copies ? sum_between_copies(bytes) : sum_of(bytes);
    const OpType type{.kind = OpKind::gradient_exchange, .pass = Pass::backward};
    sum(type.kind, moved, between_copies ? between.name : name_of(type), known->second);
  }
  return added;
}

std::vector<OpId> ReplicaExchanges::expert_weights(const StagePart& part, WorkCell cell, Pass pass,
                                                   const std::vector<OpId>& after) {
  return gather_experts(part, cell, pass, Stream::param, after);
}

std::vector<OpId> ReplicaExchanges::new_expert_weights(const StagePart& part, OpId update) {
  return gather_experts(part, {}, Pass::backward, Stream::dp, {update});
}

std::vector<OpId> ReplicaExchanges::gather_experts(const StagePart& part, WorkCell cell, Pass pass,
                                                   Stream stream, const std::vector<OpId>& after) {
  const ExpertRing ring{"gather-experts", size_of(replicas_.stage().model().weights), 1};
  const Exchange* moves = experts(part, Moved::weights, ring);
  if (moves == nullptr) return {};
  const OpKey key = key_of(OpKind::parameter_exchange, Stage::gather, pass, cell);
  return {add(ring.name, key, part, stream, *moves, after)};
}

std::vector<OpId> ReplicaExchanges::dense_weights(const StagePart& part, WorkCell cell, Pass pass,
                                                  const std::vector<OpId>& after) {
  const std::int64_t parameters = dense_parameters(part);
  if (replicas_.dense_sharers() == 1 || parameters == 0) return {};
  const OpKey key = key_of(OpKind::weight_exchange, Stage::gather, pass, cell);
  const auto [known, is_new] = dense_.try_emplace({part.kind, part.number, Moved::weights});
  if (is_new) known->second = gather_of(parameters);
  return {add(name_of(key.type()), key, part, Stream::param, known->second, after)};
}

Exchange ReplicaExchanges::sum_of(Bytes gradients) const {
  const IterationSpec& spec = replicas_.stage().options().spec;
  const LayerReplicas::Groups& groups = replicas_.sharers();
  const bool levels = spec.collective == ReplicaCollective::two_level;
  if (spec.zero > 0) {
    const Bytes part(shared_by(gradients.value, groups.members()));
    return in_groups(groups, levels ? hierarchical_reduce_scatter(groups.nodes, part)
                                    : reduce_scatter(groups.nodes, part));
  }
  if (spec.collective == ReplicaCollective::tree) {
    return in_groups(groups, tree_all_reduce(groups.nodes, gradients));
  }
  return in_groups(groups, levels ? hierarchical_all_reduce(groups.nodes, gradients)
                                  : all_reduce(groups.nodes, gradients));
}

Exchange ReplicaExchanges::sum_between_copies(Bytes gradients) const {
  const LayerReplicas::Groups& groups = replicas_.between_copies();
  const Bytes part(shared_by(gradients.value, replicas_.dense_sharers()));
  const bool levels = replicas_.stage().options().spec.collective == ReplicaCollective::two_level;
  return in_groups(groups, levels ? hierarchical_all_reduce(groups.nodes, part)
                                  : all_reduce(groups.nodes, part));
}

Exchange ReplicaExchanges::gather_of(std::int64_t parameters) const {
  const LayerReplicas::Groups& groups = replicas_.sharers();
  const std::int64_t shard = shared_by(parameters, groups.members());
  const Bytes part(shard * size_of(replicas_.stage().model().weights));
  const bool levels = replicas_.stage().options().spec.collective == ReplicaCollective::two_level;
  return in_groups(groups, levels ? hierarchical_all_gather(groups.nodes, part)
                                  : all_gather(groups.nodes, part));
}

std::vector<OpId> ReplicaExchanges::undivided_gradients(const std::vector<StagePart>& parts,
                                                        const std::vector<OpId>& after) {
  const StageSpace& stage = replicas_.stage();
  const Spec& options = stage.options();
  const int tp = stage.shard().tp;
  if (!whole_ || tp == 1 || !options.whole_tensor_groups()) return {};
  std::int64_t parameters = 0;
  for (const StagePart& part : parts) parameters += undivided_parameters(stage.model(), part);
  LayerReplicas::Groups groups;
  for (const StageSpace* each : replicas_.stages()) {
    for (auto& group : each->groups(ParallelAxis::tp)) {
      for (GpuId& gpu : group) gpu = each->gpus()->in_plan(gpu);
      groups.lists.push_back(std::move(group));
    }
  }
  OpKey key = key_of(OpKind::tensor_exchange, Stage::reduce, Pass::backward, {});
  key.role = Role::wgrad;
  return {
      add(name_of(key.type()), key, {StagePartKind::layer, -1}, Stream::tp,
          in_groups(groups, all_reduce(one_node(tp), Bytes(parameters * options.state.gradient))),
          after)};
}

OpId ReplicaExchanges::all_dense_weights(std::int64_t parameters, const std::vector<OpId>& after) {
  const OpKey key = key_of(OpKind::weight_exchange, Stage::gather, Pass::backward, {});
  return add(name_of(key.type()), key, {StagePartKind::layer, -1}, Stream::dp,
             gather_of(parameters), after);
}

}  // namespace moesim
