// SPDX-License-Identifier: Apache-2.0
// Who holds the same parameters: the replicas of the pipeline stages that hold the same layers.
#pragma once

#include <vector>

#include "sim/collective/collective.h"
#include "sim/planner/iteration/stage_space.h"
#include "sim/topology/topology.h"

namespace moesim {

/// One pipeline stage, or the two that DualPipe gives the same layers; all of their replicas.
class LayerReplicas {
 public:
  /// The stages must outlive it, of GPUs of `topology`.
  LayerReplicas(std::vector<const StageSpace*> stages, const Topology& topology);

  /// All alike but for their GPUs.
  const std::vector<const StageSpace*>& stages() const { return stages_; }
  const StageSpace& stage() const { return *stages_.front(); }
  /// GPUs that hold the same dense parameters, and that hold the same experts.
  int of_dense() const { return static_cast<int>(dense_.front().size()); }
  int of_experts() const;
  /// All GPUs, under the plan's numbers: the group of what all of them exchange.
  const Group& everybody() const { return everybody_; }
  /// The members of a group that holds the same dense parameters, by their nodes.
  const MemberNodes& nodes() const { return nodes_; }

  /// `of_group` among the members of every group that holds the same dense parameters.
  ByteMatrix in_dense_groups(const ByteMatrix& of_group) const;
  /// From the GPUs of all stages, under their stages' own numbers, stage by stage.
  ByteMatrix from_stages(const ByteMatrix& all) const;

 private:
  ByteMatrix among(const std::vector<std::vector<GpuId>>& groups, const ByteMatrix& of_group) const;

  std::vector<const StageSpace*> stages_;
  Group everybody_;
  std::vector<std::vector<GpuId>> dense_;  // [group][member], numbers of the plan
  MemberNodes nodes_;
};

}  // namespace moesim
