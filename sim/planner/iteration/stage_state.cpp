// SPDX-License-Identifier: Apache-2.0
// What is in the memory of a pipeline stage's GPUs all the time.
#include <algorithm>
#include <map>
#include <set>

#include "sim/base/rounding.h"
#include "sim/model/kv_cache.h"
#include "sim/model/parameters.h"
#include "sim/planner/iteration/block_memory.h"
#include "sim/planner/iteration/least_state.h"
#include "sim/planner/iteration/muon.h"
#include "sim/planner/iteration/stage_memory.h"
#include "sim/planner/iteration/stage_parameters.h"

namespace moesim {
namespace {

/// Parameters in blocks of a part that the precision of an engine leaves as they are.
std::int64_t left_out_of(const GemmTypes& types, const StagePart& part, const StageSpace& stage) {
  if (types.parts == usually_quantized) return 0;
  std::int64_t all = 0;
  for (const HeldBlock& held : blocks_of(part, stage.model())) {
    if (types.of(held.block, held.layer) == types.type) continue;
    const BlockParameters p = block_parameters(stage.model(), held.layer, held.block);
    all += p.split / stage.shard().tp + p.whole;
  }
  return all;
}

}  // namespace

void StageMemory::add_state() {
  const MoeModel& model = stage_.model();
  const Spec& options = stage_.options();
  const std::int64_t replicas = stage_.sharers(ParallelAxis::dp_cp);
  std::int64_t dense = 0, unquantized = 0;  // of an engine, embedding and head among them
  const GemmTypes types = options.gemm_types(model);
  std::vector<HeldBlock> held;
  for (std::size_t c = 0; c < chunks_.size(); ++c) {
    for (const ChunkBlock& block : blocks_[c]) held.push_back(block.held);
    if (!chunks_[c]->whole) continue;
    for (const StagePart& part : chunks_[c]->parts) {
      const std::int64_t own = dense_parameters(model, stage_.shard().tp, part);
      const bool around = part.kind == StagePartKind::embedding || part.kind == StagePartKind::head;
      const std::int64_t others = !options.serves() ? 0
                                  : around          ? own
                                                    : left_out_of(types, part, stage_);
      unquantized += others;
      dense += own - others;
    }
  }
  MemoryUse alike = state_of_dense(dense, replicas, model, options);
  alike.of(MemoryPart::weights) += bytes_of(unquantized, model.activations);
  if (!chunks_.empty() && chunks_.front()->whole && !options.serves()) {
    const auto etp = static_cast<int>(stage_.groups(ParallelAxis::etp).front().size());
    alike.of(MemoryPart::placeholders) = gradient_placeholders(model, held, stage_.shard(), etp);
  }
  for (GpuId own(0); own.index() < state_.size(); ++own.value) {
    if (stage_.attends(own)) state_[own.index()] = alike;
  }
  for (const ChunkParts* chunk : chunks_) {
    std::set<int> added;  // layers that only draft are not in the first microbatch
    for (const ChunkLayers* layers : chunk->microbatches) {
      for (const LayerWork& work : layers->works) {
        if (added.insert(work.number).second) add_experts(work);
      }
    }
  }
  if (options.serves() && !chunks_.empty() && chunks_.front()->whole) add_cache();
  if (by_muon()) add_muon(dense);
}

bool StageMemory::by_muon() const { return moesim::by_muon(stage_.options()); }

/// Matrices are dealt out whole; what Adam updates has one moment more.
void StageMemory::add_muon(std::int64_t dense) {
  HeldMatrices held{{}, dense, std::vector<std::int64_t>(state_.size())};
  for (const ChunkParts* chunk : chunks_) {
    if (chunk->whole) held.parts.insert(held.parts.end(), chunk->parts.begin(), chunk->parts.end());
    for (const LayerWork& work : chunk->of(0).works) held.add_experts(work);
  }
  const int copies = pipeline_.copies();
  const bool mirrored = copies > 1 && number_ >= pipeline_.stages() / copies;
  const auto updated = updated_by_muon(stage_, held, mirrored ? 1 : 0, copies);
  second_moments_ = Bytes(updated.front().others * second_moment_bytes);
  for (std::size_t g = 0; g < state_.size(); ++g) {
    const std::int64_t own = updated[g].others + parameters_of(updated[g].matrices);
    state_[g].of(MemoryPart::optimizer) +=
        Bytes(own * stage_.options().state.optimizer) + second_moments_;
  }
}

/// Sequences with their new tokens, in the layers of this stage.
void StageMemory::add_cache() {
  const MoeModel& model = stage_.model();
  const CacheShard shard = cache_shard(stage_.options().spec, model);
  std::map<std::int64_t, Bytes> known;  // by tokens of a sequence
  const auto of_sequence = [&](std::int64_t tokens) {
    const auto [at, is_new] = known.try_emplace(tokens);
    if (!is_new) return at->second;
    for (const ChunkParts* chunk : chunks_) {
      for (const StagePart& part : chunk->parts) {
        const int number = layer_number(model, part);
        if (number < 0) continue;
        at->second += cache_of_sequence(model, tokens, shard, number, number + 1);
      }
    }
    return at->second;
  };
  for (std::size_t g = 0; g < state_.size(); ++g) {
    for (const SequenceStep& each : stage_.served_by(GpuId(static_cast<std::int64_t>(g)))) {
      state_[g].of(MemoryPart::cache) += of_sequence(each.context + each.tokens) * each.count;
    }
  }
}

void StageMemory::add_experts(const LayerWork& work) {
  const Spec& options = stage_.options();
  const std::vector<ExpertMemory> memory =
      memory_of_experts(work, stage_.expert_model(), options.state);
  const std::int64_t replicas = stage_.expert_sharers(work.decision.gradients);
  const auto part = [&](Bytes bytes, int from) {
    return Bytes(shared_by(bytes.value, options.spec.zero >= from ? replicas : 1));
  };
  for (std::size_t g = 0; g < state_.size(); ++g) {
    state_[g].of(MemoryPart::weights) += part(memory[g].weights, 3);
    state_[g].of(MemoryPart::gradients) += part(memory[g].gradients, 2);
    if (!by_muon()) state_[g].of(MemoryPart::optimizer) += part(memory[g].optimizer, 1);
  }
}

}  // namespace moesim
