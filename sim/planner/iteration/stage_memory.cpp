// SPDX-License-Identifier: Apache-2.0
#include "sim/planner/iteration/stage_memory.h"

#include <algorithm>
#include <map>

#include "sim/planner/iteration/stage_walk.h"

namespace moesim {
StageMemory::StageMemory(const StageSpace& stage, const Pipeline& pipeline, int number,
                         const std::vector<const ChunkParts*>& chunks)
    : stage_(stage),
      pipeline_(pipeline),
      number_(number),
      chunks_(chunks),
      state_(static_cast<std::size_t>(stage.gpus()->size())) {
  for (const ChunkParts* chunk : chunks_) blocks_.push_back(blocks_of(*chunk));
  find_last_blocks();
  const auto add = [&](const StageWork& work) {
    const ChunkLayers& layers = layers_of(work);
    const auto [known, is_new] = experts_.try_emplace(&layers);
    if (is_new) known->second = expert_bytes(stage_, layers);
  };
  for (const Turn& turn : pipeline.of(number)) {
    add(turn.work);
    if (turn.beside) add(*turn.beside);
  }
  add_state();
}

void StageMemory::find_last_blocks() {
  keeping_last_ = keeping_last_layer(pipeline_.of(number_));
  for (const auto& blocks : blocks_) {
    auto& last = last_.emplace_back();
    for (auto block = blocks.begin(); block != blocks.end(); ++block) {
      last.push_back(std::none_of(block + 1, blocks.end(), [&](const ChunkBlock& later) {
        return later.held.block == block->held.block;
      }));
    }
  }
}

const ChunkLayers& StageMemory::layers_of(const StageWork& work) const {
  const ChunkParts& chunk = *chunks_[static_cast<std::size_t>(work.chunk)];
  return chunk.of(work.microbatch);
}

/// A forward sends its output, a backward has received a gradient and sends one; what a forward
/// received is the kept input of its first block.
Bytes StageMemory::transfers(const StageWork& work) const {
  const int position = pipeline_.position_of({number_, work.chunk});
  const auto crosses = [&](int other) {
    return other >= 0 && other < pipeline_.positions() &&
           pipeline_.place(work.microbatch, other).stage != number_;
  };
  if (work.kind == WorkKind::weight_gradient) return Bytes(0);
  const int behind = crosses(position + 1) ? 1 : 0;
  const int before = goes_backward(work.kind) && crosses(position - 1) ? 1 : 0;
  return stage_.handed_on() * (behind + before);
}

const StageMemory::Experts& StageMemory::experts(const StageWork& work) const {
  return experts_.at(&layers_of(work));
}

Bytes StageMemory::update(GpuId own) const {
  const Spec& options = stage_.options();
  if (!options.optimizer || options.state.optimizer == 0) return Bytes(0);
  const std::int64_t parameters =
      (state(own).of(MemoryPart::optimizer) - second_moments_).value / options.state.optimizer;
  return Bytes(parameters * options.spec.update_bytes);
}

MemoryPeak StageMemory::peak(GpuId own) const {
  MemoryPeak peak;
  peak.stage = number_;
  Bytes most;
  Walk walk(*this, own);
  walk.run([&](const MemoryUse& use, int turn, const StageWork& work, const HeldBlock& held) {
    const Bytes total = use.total();
    if (total <= most) return;
    most = total;
    const bool in_layer = held.block != BlockKind::embedding && held.block != BlockKind::head;
    peak.use = use;
    peak.turn = turn;
    peak.work = work;
    peak.layer = in_layer ? held.layer : -1;
    peak.block = held.block;
  });
  if (update(own) > most) {
    peak = {.use = {}, .stage = number_, .update = true};
    peak.use.of(MemoryPart::working) = update(own);
  }
  peak.on_host = walk.most_on_host();
  peak.use += state(own);
  peak.use.of(MemoryPart::activations) += stash(own);
  return peak;
}

Bytes StageMemory::stash(GpuId own) const {
  const auto& stash = stage_.options().spec.stash;
  if (!stash) return Bytes(0);
  Walk walk(*this, own);
  walk.run([](const MemoryUse&, int, const StageWork&, const HeldBlock&) {});
  stash->check_stash(walk.most_paged(), walk.most_mean(), number_);
  return kept_expert_row(stage_, stage_.shard().gemm_types.kept_of_experts()) *
         stash->stash_rows(walk.most_mean());
}

bool StageMemory::holds_as_first(GpuId own) const {
  const auto same = [&](const std::vector<PassBytes>& layer) {
    return layer[own.index()] == layer.front();
  };
  return state(own) == state_.front() && std::ranges::all_of(experts_, [&](const auto& of) {
           return std::ranges::all_of(of.second, same);
         });
}

std::vector<MemoryUse> StageMemory::curve(GpuId own) const {
  std::vector<MemoryUse> result(pipeline_.of(number_).size());
  Walk(*this, own).run([&](const MemoryUse& use, int turn, const StageWork&, const HeldBlock&) {
    MemoryUse& most = result[static_cast<std::size_t>(turn)];
    if (use.total() > most.total()) most = use;
  });
  if (update(own).value > 0) result.emplace_back().of(MemoryPart::working) = update(own);
  const Bytes pages = stash(own);
  for (MemoryUse& use : result) {
    use += state(own);
    use.of(MemoryPart::activations) += pages;
  }
  return result;
}

}  // namespace moesim
