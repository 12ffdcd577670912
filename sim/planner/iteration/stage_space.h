// SPDX-License-Identifier: Apache-2.0
// What the ops of one pipeline stage share: its GPUs, their groups, and how they are added.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "sim/model/blocks.h"
#include "sim/plan/plan.h"
#include "sim/planner/iteration/spec.h"
#include "sim/planner/layer/op_chain.h"

namespace moesim {

/// A pipeline stage: all GPUs that hold one place of the pipelines, in all replicas. They have
/// numbers 0 .. gpus() - 1 of their own, EP group after EP group (Grid::stage_by).
class StageSpace {
 public:
  /// All of these must outlive it.
  StageSpace(Plan& plan, const Grid& grid, int stage, const MoeModel& model, const Spec& options);

  Plan& plan() const { return plan_; }
  const MoeModel& model() const { return model_; }
  /// With experts as wide as the parts of their tensors that one GPU holds.
  const MoeModel& expert_model() const { return expert_model_; }
  const Spec& options() const { return options_; }
  const std::shared_ptr<const GpuSubset>& gpus() const { return gpus_; }
  const Group& everybody() const { return everybody_; }
  const BlockShard& shard() const { return shard_; }
  /// Bytes of a microbatch's activations on one GPU.
  Bytes activations() const;

  /// GPUs, under their own numbers, that wait for each other anyway: the least groups that hold
  /// tensor, context and expert groups whole. What joins them is an op for each.
  const std::vector<Group>& cells() const { return cells_; }
  /// The groups of an axis within the stage, under its own numbers, members in the order of the
  /// axis.
  GpuGroups groups(ParallelAxis axis) const;
  /// The traffic among the members of a cell that the groups of an axis within it make: `of_group`
  /// is that among the members of one.
  ByteMatrix in_cell(const Group& cell, ParallelAxis axis, const ByteMatrix& of_group) const;

 private:
  Plan& plan_;
  const Grid& grid_;
  const MoeModel& model_;
  MoeModel expert_model_;
  const Spec& options_;
  std::shared_ptr<const GpuSubset> gpus_;
  Group everybody_;
  BlockShard shard_;
  std::vector<Group> cells_;
};

}  // namespace moesim
