// SPDX-License-Identifier: Apache-2.0
// The plan of a step as it grows, turn by turn of its pipeline.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "sim/planner/iteration/chunk_pass.h"
#include "sim/planner/iteration/spec.h"
#include "sim/planner/iteration/step_memory.h"
#include "sim/planner/iteration/transfers.h"

namespace moesim {

/// What a step is planned from, once its layers are decided. All of it outlives the plan's growth.
struct DecidedStep {
  const IterationShape& shape;
  const Pipeline& pipeline;  // that is planned: of the shape, or a shorter one
  const Spec& spec;
  const MoeModel& model;
  const Topology& topology;
  bool whole;                                               // with what is around the experts
  const std::vector<std::unique_ptr<StageLayers>>& layers;  // [stage]

  /// The parts of the model at a place of the pipeline.
  const std::vector<StagePart>& parts(int stage, int chunk) const {
    return shape.layers.parts(shape.pipeline.position_of({stage, chunk}));
  }
};

class GrowingStep {
 public:
  GrowingStep(const DecidedStep& step, Plan& plan);
  GrowingStep(const GrowingStep&) = delete;

  void add_all();
  /// Once all is added.
  StepMemory memory() const;

 private:
  using PassKey = std::tuple<int, int, int>;  // stage, microbatch, chunk

  std::vector<int> copies_of(int stage) const;
  void add_optimizers();
  void add_stage(int stage);
  int& left(int stage, int chunk) {
    return left_[static_cast<std::size_t>(stage)][static_cast<std::size_t>(chunk)];
  }
  ChunkPass& pass(int stage, const StageWork& work);
  ChunkPass& begin(int stage, const StageWork& work, const std::vector<OpId>& sent);
  void end(ChunkPass& made, int stage, const StageWork& work);
  void add(int stage, const StageWork& work);
  void add_parts_of_batch(int stage);
  void add_merged_works(int stage, const StageWork& forward, const StageWork& backward);

  const DecidedStep& step_;
  Plan& plan_;
  std::vector<StageSpace> stages_;
  bool cells_apart_;  // cells start and end by themselves
  Transfers transfers_;
  std::vector<std::unique_ptr<BlockOps>> blocks_;                 // [stage]
  std::vector<std::unique_ptr<StashCopies>> stashes_;             // [stage]; null: there is none
  std::vector<std::unique_ptr<HostCopies>> copies_;               // [stage]; null: there are none
  std::vector<std::vector<std::unique_ptr<ChunkParts>>> chunks_;  // [stage][chunk]
  std::vector<std::unique_ptr<OptimizerOps>> optimizers_;         // [stage] of the first copies
  std::map<PassKey, std::unique_ptr<ChunkPass>> passes_;          // that have begun
  std::set<PassKey> apart_;                        // whose weight gradients are passes of their own
  std::set<std::tuple<int, int, bool>> migrated_;  // stage, chunk, whether of what drafts
  std::vector<std::vector<int>> left_;             // [stage][chunk] passes that end gradients
  std::vector<Mark> done_;                         // [stage]
};

}  // namespace moesim
