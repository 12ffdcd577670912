// SPDX-License-Identifier: Apache-2.0
// What the ops of one pipeline stage share: its GPUs, their groups, and shapes of their work.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "sim/model/blocks.h"
#include "sim/plan/plan.h"
#include "sim/planner/iteration/rank_kernels.h"
#include "sim/planner/iteration/spec.h"
#include "sim/planner/layer/gpu_subset.h"
#include "sim/planner/layer/op_chain.h"

namespace moesim {

/// A pipeline stage: all GPUs that hold one place of the pipelines, in all replicas. Within it they
/// have numbers from 0 on of their own, EP group after EP group (Grid::stage_by).
class StageSpace {
 public:
  /// All of these but the topology must outlive it.
  StageSpace(Plan& plan, const Grid& grid, int stage, const MoeModel& model, const Spec& options,
             const Topology& topology);

  Plan& plan() const { return plan_; }
  const MoeModel& model() const { return model_; }
  /// With experts as wide as the parts of their tensors that one GPU holds.
  const MoeModel& expert_model() const { return expert_model_; }
  const Spec& options() const { return options_; }
  const std::shared_ptr<const GpuSubset>& gpus() const { return gpus_; }
  const Group& everybody() const { return everybody_; }
  /// The work of a GPU; of a serving pass that of the one with the most tokens.
  const BlockShard& shard() const { return shard_; }
  /// The forward kernels of a block in a serving pass, of all GPUs. `part`: of the batch.
  std::vector<GroupKernel> served_kernels(int layer, BlockKind block, int part) const;
  /// Whether a microbatch runs this part of the stage. Microbatches of a serving pass are parts of
  /// its batch: drafting ones run multi-token prediction, and only they do.
  bool runs(StagePartKind kind, int microbatch) const;
  /// Whether a GPU has more than experts.
  bool attends(GpuId own) const {
    return !options_.serves() ||
           options_.spec.serving->attends(grid_.place(gpus_->in_plan(own)).dp);
  }
  /// Whether GPUs of a tensor group divide the KV cache of this layer by tokens.
  bool shares_keys(int layer) const;
  /// Whether a microbatch is what drafts behind a serving pass.
  bool drafts(int microbatch) const {
    return !parts_.empty() && parts_[static_cast<std::size_t>(microbatch)].drafts();
  }
  /// Whether every GPU of a tensor group has all of its tokens: engines sum what each computes with
  /// its part of attention, experts and dense weights, if nothing else divides the experts.
  bool replicates() const;
  /// Sequences that a GPU serves in all parts of the batch.
  const std::vector<SequenceStep>& served_by(GpuId own) const;
  /// What the tensor group of a GPU serves in a part of the batch.
  const BlockShard& served(GpuId own, int part) const {
    return served_[static_cast<std::size_t>(part)][list_of_[own.index()]];
  }
  /// Bytes of a microbatch's activations on one GPU.
  Bytes activations() const;
  /// Bytes of a microbatch that a GPU sends to the next stage: of all residual streams
  /// (hyper-connections).
  Bytes handed_on() const { return activations() * model_.residual_streams; }

  /// The smallest groups of GPUs, under their own numbers, that hold tensor, context and expert
  /// groups whole: no exchange leaves one. Exchanges add an op per cell, unless cells are merged.
  const std::vector<Group>& cells() const { return cells_; }
  /// The groups of an axis within the stage, under its own numbers, members in the order of the
  /// axis.
  GpuGroups groups(ParallelAxis axis) const;
  /// The nodes of the members of a tensor group: those of the first one.
  const MemberNodes& tensor_nodes() const { return tensor_nodes_; }
  /// GPUs among which ZeRO divides state: the members of a group of an axis, or those of one of its
  /// `dp_replicate` copies, times the stages that hold the same layers.
  int sharers(ParallelAxis axis) const;
  /// The same of experts. Of a summed layout only those stages count: it has divided the state
  /// among the replicas already.
  int expert_sharers(GradientLayout layout) const;
  /// [GPU] which `dp_replicate` copy it is in, under its own number.
  const std::vector<int>& copies() const { return copies_; }
  /// The traffic among the members of a cell that the groups of an axis within it make: `of_group`
  /// is that among the members of one, by its first member; all have the same unit.
  using TrafficOf = std::function<ByteMatrix(GpuId first)>;
  ByteMatrix in_cell(const Group& cell, ParallelAxis axis, const TrafficOf& of_group) const;

 private:
  void share_batch();

  Plan& plan_;
  const Grid& grid_;
  const MoeModel& model_;
  MoeModel expert_model_;
  const Spec& options_;
  std::shared_ptr<const GpuSubset> gpus_;
  Group everybody_;
  BlockShard shard_;
  std::vector<BatchPart> parts_;                 // of a serving pass
  std::vector<std::size_t> list_of_;             // [GPU] an index into the lists of a part
  std::vector<std::vector<BlockShard>> served_;  // [part][list of sequences]
  std::vector<Group> cells_;
  std::vector<int> copies_;  // [GPU]
  MemberNodes tensor_nodes_;
};

}  // namespace moesim
