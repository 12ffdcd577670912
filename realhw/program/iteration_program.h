// SPDX-License-Identifier: Apache-2.0
// A rank's part of a whole iteration while it is compiled: its microbatches, what it passes to
// other stages and replicas, and the update.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "realhw/program/block_program.h"
#include "realhw/program/ring_program.h"

namespace moesim {

class IterationProgram {
 public:
  using LayerOf = std::function<LayerProgram*(int microbatch, int layer)>;
  /// The layers of the rank's experts must have been made. All must outlive it.
  IterationProgram(Draft& draft, LayerOf layer_of);

  /// Adds what an op that belongs to blocks, stages, replicas or the update does. False: it is none
  /// of these, but of the routed experts. Throws std::runtime_error for what cannot run.
  bool add(RankStep& step);
  /// Once all ops have been added. Throws std::runtime_error if weights are used before they are
  /// there, or gradients taken before all are.
  void check_waits() const;

 private:
  const HeldStage& stage() const { return held_.stages[stage_]; }
  const HeldChunk& chunk_at(int position) const;
  BlockProgram& blocks(int microbatch, const HeldChunk& chunk);
  void add_transfer(RankStep& step);
  RingCollective dense_ring(RingKind kind, const StagePart& part, BufferId DenseBuffers::*buffer);
  void add_gradients(RankStep& step);
  void add_weights(RankStep& step);
  RingProgram expert_rings(RankStep& step, RingKind kind, BufferId ExpertBuffers::*buffer);
  void add_expert_gradients(RankStep& step);
  void add_expert_weights(RankStep& step);
  /// The elements of an expert that a holder sums and, with ZeRO, updates.
  std::pair<std::int64_t, std::int64_t> expert_part(const std::vector<GpuId>& holders,
                                                    GpuId holder) const;
  std::pair<std::int64_t, std::int64_t> updated_part(int layer, ExpertId expert) const;
  std::vector<GpuId> holders_of(const RoutedLayer& routing, ExpertId expert) const;
  const RoutedLayer& routing_of(int layer) const;
  void add_undivided_gradients(RankStep& step);
  void check_sums(const ParameterOps& ops) const;
  void add_update(RankStep& step);
  void require(OpId made_by, OpId op, const char* what) const;
  void add_results();

  Draft& draft_;
  LayerOf layer_of_;
  const HeldIteration& held_;
  std::size_t stage_;
  std::unique_ptr<HeldParameters> parameters_;
  std::map<std::pair<int, int>, std::unique_ptr<BlockProgram>> blocks_;  // microbatch, position
  OpId update_{-1};
  OpId undivided_{
      -1};  // sums gradients of what is whole in the tensor group; below 0: nobody has to
  std::vector<OpId> gathers_;  // of updated weights
};

}  // namespace moesim
