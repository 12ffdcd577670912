// SPDX-License-Identifier: Apache-2.0
// The ops of dense blocks: kernels on every GPU of a pipeline stage, and what tensor and context
// groups exchange around them.
#pragma once

#include <functional>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "sim/collective/collective.h"
#include "sim/plan/plan.h"
#include "sim/planner/iteration/stage_space.h"
#include "sim/planner/layer/phase_exchange.h"

namespace moesim {

/// Which part of a microbatch's work an op belongs to.
struct WorkCell {
  int microbatch = 0;
  int chunk = 0;
};

/// Blocks with sequence parallelism (Korthikanti et al., arXiv 2205.05198): activations between
/// blocks are split over the tensor group; a block gathers them before its first product and
/// scatters the sums of its last. Kernels are made once for all microbatches and for all layers
/// that have the same.
class BlockOps {
 public:
  /// All must outlive it. `joins_on`: the cluster, if cells with equal times are to be one op,
  /// which they start and end by themselves if they are `apart`.
  explicit BlockOps(const StageSpace& stage, const Topology* joins_on = nullptr, bool apart = false)
      : stage_(stage), joins_on_(joins_on), apart_(apart) {}

  void forward(OpChain& chain, WorkCell cell, int layer, BlockKind block);
  /// What the backward pass computes again, before its own kernels. A block whose kernels all run
  /// again exchanges again, too.
  void recompute(OpChain& chain, WorkCell cell, int layer, BlockKind block);
  /// Input gradients, then weight gradients unless they are apart.
  void backward(OpChain& chain, WorkCell cell, int layer, BlockKind block, bool weights_apart);
  void weight_gradients(OpChain& chain, WorkCell cell, int layer, BlockKind block);
  /// Shared experts that are divided over the tensor group: gathers before their first product of a
  /// pass, or scatters after the last one (Spec::whole_tensor_groups).
  void around_shared_experts(OpChain& chain, WorkCell cell, int layer, Role role, bool gather);

 private:
  enum class Part { forward, again, inputs, weights };
  /// Of activations, of the loss, of a context group; queries and results where a tensor group
  /// shares keys.
  enum class Exchanged { rows, sums, keys, key_gradients, queries, results };
  using Made = GroupKernel;
  const std::vector<Made>& made(WorkCell cell, int layer, BlockKind block, Part part);
  void add(OpChain& chain, WorkCell cell, int layer, BlockKind block, Part part);
  /// What a group moves, by its first member.
  using MovedBy = std::function<CollectiveTraffic(GpuId first)>;
  /// When the next kernels wait for an exchange.
  enum class Awaited { at_once, when_told };
  /// One in every cell; `moved` is asked once for each group.
  std::vector<OpId> add_exchanges(OpChain& chain, const OpKey& key, Exchanged what, Awaited awaited,
                                  const MovedBy& moved);
  std::vector<GroupExchange> exchanges_of_cells(ParallelAxis axis, const MovedBy& moved) const;
  void join(std::vector<GroupExchange>& cells) const;
  void add_tensor_exchange(OpChain& chain, OpKey key, bool gather);
  void add_sums_of_loss(OpChain& chain, OpKey key);
  std::vector<OpId> add_context_exchange(OpChain& chain, OpKey key);
  void add_shared_keys(OpChain& chain, OpKey key, bool before);

  const StageSpace& stage_;
  const Topology* joins_on_;
  bool apart_;
  /// Which of the microbatches that differ in their kernels.
  int differing(WorkCell cell) const { return stage_.options().serves() ? cell.microbatch : 0; }
  std::map<std::tuple<int, int, BlockKind, Part>, std::vector<Made>> made_;
  std::map<std::pair<int, Exchanged>, std::vector<GroupExchange>> exchanges_;  // [cell]
};

}  // namespace moesim
