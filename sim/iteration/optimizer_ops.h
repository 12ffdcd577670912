// SPDX-License-Identifier: Apache-2.0
// The end of an iteration on one pipeline stage: gradients summed over replicas, parameters
// updated, new weights handed out.
#pragma once

#include <vector>

#include "sim/iteration/block_ops.h"
#include "sim/iteration/stage_layers.h"
#include "sim/iteration/stage_space.h"
#include "sim/parallel/layer_layout.h"
#include "sim/topology/topology.h"

namespace moesim {

/// With ZeRO 0 gradients are all-reduced and every replica updates all parameters; from 1 on they
/// are reduce-scattered, each replica updates its shard and gathers the others' new weights
/// (Rajbhandari et al., arXiv 1910.02054). Experts' gradients are summed over their EP groups as
/// the placement says.
class OptimizerOps {
 public:
  /// All of these must outlive it. `parts`: all that the stage holds.
  OptimizerOps(const StageSpace& stage, StageLayers& layers, const Topology& cluster,
               std::vector<StagePart> parts, bool whole);

  /// The gradients of a part are there: they are summed from now on, or at the end.
  void sum(OpChain& chain, WorkCell cell, const StagePart& part);
  /// Sums what is left, updates, and gathers, once all of the stage's work has been added.
  void finish(const Mark& done);

  /// Parameters of one GPU besides routed experts.
  std::int64_t dense_parameters() const;

 private:
  std::int64_t dense_parameters(const StagePart& part) const;
  void add_dense(const StagePart& part, const std::vector<OpId>& after);
  void add_experts(const StagePart& part, const std::vector<OpId>& after);
  OpId add(OpKey key, const ByteMatrix& among_replicas, int rounds, std::vector<OpId> after);

  const StageSpace& stage_;
  StageLayers& layers_;
  std::vector<StagePart> parts_;
  bool whole_;
  std::vector<std::vector<GpuId>> nodes_;  // of the replicas of a dense parameter
  std::vector<StagePart> waiting_;         // parts whose sums start at the end
  std::vector<OpId> sums_;
};

}  // namespace moesim
