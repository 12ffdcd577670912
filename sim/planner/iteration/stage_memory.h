// SPDX-License-Identifier: Apache-2.0
// The memory of a pipeline stage's GPUs as it runs its timetable.
#pragma once

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "sim/planner/iteration/block_memory.h"
#include "sim/planner/iteration/step_memory.h"

namespace moesim {

/// Every microbatch brings its own rows. What waits in the memory of the host is on the GPU besides
/// from a block's forward until that of the next one begins, and from the end of the backward two
/// blocks before its own. Within a turn blocks follow one another: what a block
/// keeps is there from its forward on, until its backward has ended, or its weight gradients if
/// they are apart. In a merged turn a block of the forward is at work together with one of the
/// backward.
class StageMemory {
 public:
  /// Stage `number` of the pipeline, whose chunks hold these parts. All of these must outlive it.
  StageMemory(const StageSpace& stage, const Pipeline& pipeline, int number,
              const std::vector<const ChunkParts*>& chunks);

  int gpus() const { return static_cast<int>(state_.size()); }
  /// What is there all the time: weights, gradients, optimizer, placeholders.
  const MemoryUse& state(GpuId own) const { return state_[own.index()]; }
  /// What the optimizer takes while it updates the parameters whose state it has here.
  Bytes update(GpuId own) const;
  MemoryPeak peak(GpuId own) const;
  /// Whether a GPU holds the same as the first one at all times.
  bool holds_as_first(GpuId own) const;
  /// [turn] its fullest moment; then the update, if it takes something.
  std::vector<MemoryUse> curve(GpuId own) const;

 private:
  using Experts = std::vector<std::vector<PassBytes>>;  // [MoE layer of the chunk][GPU]
  class Walk;

  /// Of a paged stash, if there is one. Throws Unsuitable if it overflows.
  Bytes stash(GpuId own) const;

  void add_state();
  void add_cache();
  void add_experts(const LayerWork& work);
  bool by_muon() const;
  void add_muon(std::int64_t dense);
  const ChunkLayers& layers_of(const StageWork& work) const;
  Bytes transfers(const StageWork& work) const;
  const Experts& experts(const StageWork& work) const;
  void find_last_blocks();

  const StageSpace& stage_;
  const Pipeline& pipeline_;
  int number_;
  std::vector<const ChunkParts*> chunks_;
  std::vector<std::vector<ChunkBlock>> blocks_;    // [chunk]
  std::vector<std::vector<bool>> last_;            // [chunk][block] whether no later one is alike
  std::set<std::pair<int, int>> keeping_last_;     // see keeping_last_layer
  std::map<const ChunkLayers*, Experts> experts_;  // of every microbatch that differs
  std::vector<MemoryUse> state_;                   // [GPU of the stage]
  Bytes second_moments_;  // of what Adam updates next to Muon, on every GPU
};

}  // namespace moesim
