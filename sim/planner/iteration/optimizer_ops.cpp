// SPDX-License-Identifier: Apache-2.0
#include "sim/planner/iteration/optimizer_ops.h"

#include <algorithm>
#include <set>
#include <utility>

#include "sim/base/ordering.h"
#include "sim/base/rounding.h"

namespace moesim {
namespace {

/// Bytes of a parameter that an update reads and writes.
struct UpdateBytes {
  std::int64_t reads = 0, writes = 0;
};

/// Gradient and state, then state and weight; what the optimizer takes for a moment (a gradient in
/// fp32) is written and read in between.
UpdateBytes update_bytes(const Spec& spec, std::int64_t state, std::int64_t weight) {
  const std::int64_t copy = spec.spec.update_bytes;
  return {spec.state.gradient + copy + state, copy + state + weight};
}

/// Adam: two moments and a master weight. Without room for the latter the weight itself is updated:
/// two moments and it take 12 bytes in fp32, or 8 with moments in bf16 if the weight is narrower.
UpdateBytes adam_bytes(const Spec& spec, std::int64_t weight, std::int64_t state) {
  UpdateBytes bytes = update_bytes(spec, state, weight);
  if (state < (weight < 4 ? 8 : 12)) bytes.reads += weight;
  return bytes;
}

/// Muon: the orthogonalized momentum, in bf16, is written and read as well.
UpdateBytes muon_bytes(const Spec& spec, std::int64_t weight) {
  constexpr std::int64_t orthogonalized = 2;
  UpdateBytes bytes = update_bytes(spec, spec.state.optimizer, weight);
  bytes.reads += orthogonalized;
  bytes.writes += orthogonalized;
  return bytes;
}

constexpr OpId no_op(-1);

/// What all GPUs of a chain have done so far.
std::vector<OpId> newest_of(const OpChain& chain) {
  std::vector<OpId> ops = waits_of(Group::first(chain.gpus()), chain.mark());
  sort_once(ops);
  return ops;
}

}  // namespace

OptimizerOps::OptimizerOps(LayerReplicas replicas, std::vector<StageLayers*> layers,
                           std::vector<StagePart> parts, bool whole)
    : exchanges_(std::move(replicas), layers, whole),
      layers_(std::move(layers)),
      parts_(std::move(parts)) {}

std::int64_t OptimizerOps::dense_parameters() const {
  std::int64_t sum = 0;
  for (const StagePart& part : parts_) sum += exchanges_.dense_parameters(part);
  return sum;
}

std::vector<OpId> OptimizerOps::gather(const StagePart& part, WorkCell cell, Pass pass,
                                       const std::vector<OpId>& after) {
  std::vector<OpId> ops = exchanges_.dense_weights(part, cell, pass, after);
  const auto experts = exchanges_.expert_weights(part, cell, pass, after);
  ops.insert(ops.end(), experts.begin(), experts.end());
  return ops;
}

void OptimizerOps::begin() {
  if (!gathers_at_begin()) return;
  for (const StagePart& part : parts_) {
    const auto ops = gather(part, {}, Pass::forward, {});
    for (const StageSpace* stage : exchanges_.replicas().stages()) {
      new_weights_[{stage, key_of(part)}] = ops;
    }
  }
}

void OptimizerOps::fetch(const OpChain& chain, WorkCell cell, const StagePart& part, Pass pass) {
  if (zero() < 3 || !overlap().parameters) return;
  fetched_[{cell.microbatch, cell.chunk, pass, key_of(part)}] =
      gather(part, cell, pass, newest_of(chain));
}

void OptimizerOps::require(OpChain& chain, WorkCell cell, const StageSpace& stage,
                           const StagePart& part, Pass pass) {
  // Later microbatches follow the first on the stream of kernels.
  if (const auto found = new_weights_.find({&stage, key_of(part)}); found != new_weights_.end()) {
    chain.require(found->second);
    new_weights_.erase(found);
  }
  if (zero() < 3) return;
  const auto fetched = fetched_.find({cell.microbatch, cell.chunk, pass, key_of(part)});
  if (fetched != fetched_.end()) {
    chain.require(fetched->second);
    fetched_.erase(fetched);
    return;
  }
  chain.require(gather(part, cell, pass, newest_of(chain)));
}

std::vector<OpId> OptimizerOps::sum_now(const StagePart& part, WorkCell cell,
                                        const std::vector<OpId>& after) {
  const auto ops = exchanges_.gradients(part, cell, after);
  // Those of a later microbatch follow on the same stream.
  if (zero() > 1 && !ops.empty()) sums_.clear();
  sums_.insert(sums_.end(), ops.begin(), ops.end());
  return ops;
}

void OptimizerOps::sum(OpChain& chain, WorkCell cell, const StagePart& part, bool last) {
  if (!last && zero() < 2) return;
  Awaited& awaited = awaited_[key_of(part)];
  if (!overlap().gradients && zero() < 2) {
    if (awaited.stages++ == 0) waiting_.push_back(part);
    return;
  }
  const std::vector<OpId> now = newest_of(chain);
  awaited.after.insert(awaited.after.end(), now.begin(), now.end());
  if (++awaited.stages < static_cast<int>(layers_.size())) return;
  std::vector<OpId> after = std::move(awaited.after);
  awaited_.erase(key_of(part));
  sort_once(after);
  const auto ops = sum_now(part, zero() < 2 ? WorkCell() : cell, after);
  if (!overlap().gradients) chain.require(ops);
}

std::int64_t OptimizerOps::updated_dense() const {
  const std::int64_t replicas = zero() > 0 ? exchanges_.replicas().dense_sharers() : 1;
  return (dense_parameters() + replicas - 1) / replicas;
}

std::vector<std::int64_t> OptimizerOps::expert_parameters() const {
  const LayerReplicas& replicas = exchanges_.replicas();
  const MoeModel& model = replicas.stage().expert_model();
  std::vector<std::int64_t> experts(replicas.everybody().size());
  for (std::size_t s = 0; s < layers_.size(); ++s) {
    const StageSpace& stage = *replicas.stages()[s];
    for (int chunk = 0; chunk < layers_[s]->chunks(); ++chunk) {
      for (const LayerWork& work : layers_[s]->last(chunk).works) {
        const int shards = zero() > 0 ? stage.expert_sharers(work.decision.gradients) : 1;
        const auto parameters = parameters_with_state(work, model, stage.options().state);
        for (const GpuId own : stage.everybody()) {
          experts[replicas.everybody().member(stage.gpus()->in_plan(own))] +=
              shared_by(parameters[own.index()], shards);
        }
      }
    }
  }
  return experts;
}

std::vector<Updated> OptimizerOps::updated() const {
  const LayerReplicas& replicas = exchanges_.replicas();
  if (replicas.stage().options().spec.optimizer == OptimizerKind::muon) return by_muon();
  std::vector<Updated> result;
  const std::int64_t dense = updated_dense();
  for (const std::int64_t experts : expert_parameters()) result.push_back({{}, dense + experts});
  return result;
}

std::vector<Updated> OptimizerOps::by_muon() const {
  const LayerReplicas& replicas = exchanges_.replicas();
  std::vector<Updated> result(replicas.everybody().size());
  HeldMatrices held;
  held.dense = dense_parameters();
  if (held.dense > 0) held.parts = parts_;
  for (std::size_t s = 0; s < layers_.size(); ++s) {
    const StageSpace& stage = *replicas.stages()[s];
    held.experts.assign(static_cast<std::size_t>(stage.gpus()->size()), 0);
    for (int chunk = 0; chunk < layers_[s]->chunks(); ++chunk) {
      for (const LayerWork& work : layers_[s]->last(chunk).works) held.add_experts(work);
    }
    auto of_stage =
        updated_by_muon(stage, held, static_cast<int>(s), static_cast<int>(layers_.size()));
    for (const GpuId own : stage.everybody()) {
      result[replicas.everybody().member(stage.gpus()->in_plan(own))] =
          std::move(of_stage[own.index()]);
    }
  }
  return result;
}

OpId OptimizerOps::add_kernels(std::vector<Kernel> each, int part, const std::vector<OpId>& after) {
  const LayerReplicas& replicas = exchanges_.replicas();
  const OpKey key{.kind = OpKind::optimizer, .pass = Pass::backward, .part = part};
  return replicas.stage().plan().add({name_of(key.type()), key, Stream::compute,
                                      replicas.everybody(), after, Kernels(std::move(each))});
}

OpId OptimizerOps::add_update(const std::vector<OpId>& after) {
  const std::vector<Updated> all = updated();
  const StageSpace& stage = exchanges_.replicas().stage();
  const Spec& spec = stage.options();
  const std::int64_t weight = size_of(stage.model().weights);
  const bool muon = spec.spec.optimizer == OptimizerKind::muon;
  const UpdateBytes other =
      adam_bytes(spec, weight, spec.state.optimizer + (muon ? second_moment_bytes : 0));
  const UpdateBytes matrix = muon_bytes(spec, weight);
  std::int64_t most = 0;
  std::vector<Kernel> each;
  for (const Updated& gpu : all) {
    const std::int64_t matrices = parameters_of(gpu.matrices);
    most = std::max(most, matrices + gpu.others);
    each.emplace_back(MemoryBound{Bytes(gpu.others * other.reads + matrices * matrix.reads),
                                  Bytes(gpu.others * other.writes + matrices * matrix.writes)});
  }
  if (most == 0) return no_op;
  return add_orthogonalization(all, add_kernels(std::move(each), 0, after));
}

OpId OptimizerOps::add_orthogonalization(const std::vector<Updated>& updated, OpId after) {
  std::set<WeightMatrix> shapes;
  for (const Updated& gpu : updated) {
    for (const auto& [matrix, count] : gpu.matrices) shapes.insert(matrix);
  }
  int part = 0;
  for (const WeightMatrix& shape : shapes) {
    std::array<std::vector<Kernel>, 3> products;
    for (const Updated& gpu : updated) {
      const auto found = gpu.matrices.find(shape);
      const auto three = newton_schulz(shape, found == gpu.matrices.end() ? 0 : found->second);
      for (std::size_t i = 0; i < three.size(); ++i) products[i].emplace_back(three[i]);
    }
    for (auto& each : products) after = add_kernels(std::move(each), ++part, {after});
  }
  return after;
}

void OptimizerOps::finish(const std::vector<const Mark*>& done) {
  const LayerReplicas& replicas = exchanges_.replicas();
  std::vector<OpId> after;
  for (const Mark* mark : done) {
    const auto waits = waits_of(Group::first(static_cast<int>(mark->size())), *mark);
    after.insert(after.end(), waits.begin(), waits.end());
  }
  sort_once(after);
  for (const StagePart& part : waiting_) sum_now(part, {}, after);
  after.insert(after.end(), sums_.begin(), sums_.end());
  const auto undivided = exchanges_.undivided_gradients(parts_, after);
  after.insert(after.end(), undivided.begin(), undivided.end());
  const OpId update = add_update(after);
  const bool gathers = zero() > 0 && zero() < 3 && !gathers_at_begin();
  if (update == no_op || !gathers) return;
  if (replicas.dense_sharers() > 1 && dense_parameters() > 0) {
    exchanges_.all_dense_weights(dense_parameters(), {update});
  }
  for (const StagePart& part : parts_) {
    exchanges_.new_expert_weights(part, update);
  }
}

}  // namespace moesim
