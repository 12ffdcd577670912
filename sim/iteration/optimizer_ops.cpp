// SPDX-License-Identifier: Apache-2.0
#include "sim/iteration/optimizer_ops.h"

#include <algorithm>

#include "sim/base/sort_once.h"
#include "sim/collective/collective.h"
#include "sim/iteration/stage_parameters.h"
#include "sim/policy/memory.h"

namespace moesim {
namespace {

/// Bytes per parameter that an update with Adam reads and writes: gradient, master weight and two
/// moments in fp32; then the last three and the weight.
constexpr std::int64_t update_reads = 16, update_writes = 12;

std::int64_t shared_out(std::int64_t value, std::int64_t over) { return (value + over - 1) / over; }

}  // namespace

OptimizerOps::OptimizerOps(const StageSpace& stage, StageLayers& layers, const Topology& cluster,
                           std::vector<StagePart> parts, bool whole)
    : stage_(stage), layers_(layers), parts_(std::move(parts)), whole_(whole) {
  std::vector<int> node_of;
  const Group replicas = stage.groups(ParallelAxis::dp_cp).front();
  for (const GpuId gpu : replicas) node_of.push_back(cluster.host_of(gpu));
  nodes_ = by_node(node_of);
}

std::int64_t OptimizerOps::dense_parameters(const StagePart& part) const {
  if (!whole_) return 0;
  return moesim::dense_parameters(stage_.model(), stage_.shard().tp, part);
}

std::int64_t OptimizerOps::dense_parameters() const {
  std::int64_t sum = 0;
  for (const StagePart& part : parts_) sum += dense_parameters(part);
  return sum;
}

void OptimizerOps::sum(OpChain& chain, WorkCell, const StagePart& part) {
  if (!stage_.options().spec.overlap.gradients) {
    waiting_.push_back(part);
    return;
  }
  std::vector<OpId> after = waits_of(stage_.everybody(), chain.mark());
  sort_once(after);
  add_experts(part, after);
  add_dense(part, after);
}

OpId OptimizerOps::add(OpKey key, const ByteMatrix& among_replicas, int rounds,
                       std::vector<OpId> after) {
  Exchange exchange{
      stage_.in_cell(stage_.everybody(), ParallelAxis::dp_cp, among_replicas), {}, false};
  exchange.rounds = rounds;
  return stage_.plan().add({name_of(key.type()), key, Stream::dp,
                            stage_.gpus()->in_plan(stage_.everybody()), std::move(after),
                            std::move(exchange)});
}

void OptimizerOps::add_dense(const StagePart& part, const std::vector<OpId>& after) {
  const auto replicas =
      static_cast<std::int64_t>(stage_.groups(ParallelAxis::dp_cp).front().size());
  const Bytes gradients(dense_parameters(part) * stage_.options().state.gradient);
  if (replicas == 1 || gradients.value == 0) return;
  const bool shards = stage_.options().spec.zero > 0;
  const auto [traffic, rounds] =
      shards ? reduce_scatter(nodes_, Bytes(shared_out(gradients.value, replicas)))
             : all_reduce(nodes_, gradients);
  const OpKey key{.kind = OpKind::gradient_exchange,
                  .pass = Pass::backward,
                  .stage = Stage::reduce,
                  .layer = part.kind == StagePartKind::layer ? part.number : -1,
                  .part = static_cast<int>(part.kind)};
  sums_.push_back(add(key, traffic, rounds, after));
}

void OptimizerOps::add_experts(const StagePart& part, const std::vector<OpId>& after) {
  for (int chunk = 0; chunk < layers_.chunks(); ++chunk) {
    const auto& numbers = layers_.numbers(chunk);
    const auto at = std::ranges::find(numbers, part.number);
    if (part.kind != StagePartKind::layer || at == numbers.end()) continue;
    const LayerWork& work =
        layers_.last(chunk).works[static_cast<std::size_t>(at - numbers.begin())];
    const auto sum = layers_.planner().gradient_sum(work.decision);
    if (!sum) continue;
    const OpKey key{.kind = OpKind::gradient_sum,
                    .pass = Pass::backward,
                    .stage = Stage::reduce,
                    .layer = part.number};
    sums_.push_back(
        stage_.plan().add({sum->name, key, Stream::dp, stage_.gpus()->in_plan(stage_.everybody()),
                           after, Exchange{sum->traffic, {}, false}}));
  }
}

void OptimizerOps::finish(const Mark& done) {
  std::vector<OpId> after = waits_of(stage_.everybody(), done);
  sort_once(after);
  for (const StagePart& part : waiting_) {
    add_experts(part, after);
    add_dense(part, after);
  }
  after.insert(after.end(), sums_.begin(), sums_.end());
  const auto replicas =
      static_cast<std::int64_t>(stage_.groups(ParallelAxis::dp_cp).front().size());
  const bool shards = stage_.options().spec.zero > 0;
  const std::int64_t dense = dense_parameters();
  const std::int64_t updated = shards ? shared_out(dense, replicas) : dense;
  const std::int64_t expert_replicas =
      shards ? static_cast<std::int64_t>(stage_.groups(ParallelAxis::edp).front().size()) : 1;
  std::vector<std::int64_t> experts(stage_.everybody().size());
  for (int chunk = 0; chunk < layers_.chunks(); ++chunk) {
    for (const LayerWork& work : layers_.last(chunk).works) {
      const auto memory = work.decision.memory.empty()
                              ? whole_experts(work.assignment().placement(), stage_.model(), {})
                              : work.decision.memory;
      for (std::size_t g = 0; g < experts.size(); ++g) {
        experts[g] += memory[g].weights.value / size_of(stage_.model().weights) / expert_replicas;
      }
    }
  }
  std::vector<Kernel> each;
  for (const std::int64_t of_experts : experts) {
    const std::int64_t parameters = updated + of_experts;
    each.emplace_back(
        MemoryBound{Bytes(parameters * update_reads),
                    Bytes(parameters * (update_writes + size_of(stage_.model().weights)))});
  }
  OpKey key{.kind = OpKind::optimizer, .pass = Pass::backward};
  if (updated + *std::ranges::max_element(experts) == 0) return;
  const OpId update = stage_.plan().add({name_of(key.type()), key, Stream::compute,
                                         stage_.gpus()->in_plan(stage_.everybody()), after,
                                         Kernels(std::move(each))});
  if (!shards || replicas == 1 || dense == 0) return;
  key.kind = OpKind::weight_exchange;
  key.stage = Stage::gather;
  const auto [traffic, rounds] =
      all_gather(nodes_, Bytes(updated * size_of(stage_.model().weights)));
  add(key, traffic, rounds, {update});
}

}  // namespace moesim
