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
  /// GPUs that share the state of dense parameters, and GPUs of the same place in every copy of
  /// that state.
  int dense_sharers() const { return sharers_.members(); }
  int copies() const { return copies_.members(); }
  /// All GPUs, under the plan's numbers: the group of what all of them exchange.
  const Group& everybody() const { return everybody_; }
  /// Groups of as many GPUs, and the nodes of the members of one of them.
  struct Groups {
    std::vector<std::vector<GpuId>> lists;  // numbers of the plan
    MemberNodes nodes;
    int members() const { return static_cast<int>(lists.front().size()); }
  };
  /// Those that share the state of the same dense parameters: all that hold them, or one copy of
  /// it. Between copies: the GPUs of equal place.
  const Groups& sharers() const { return sharers_; }
  const Groups& between_copies() const { return copies_; }

  /// `of_group` among the members of each of these groups.
  ByteMatrix in_groups(const Groups& groups, const ByteMatrix& of_group) const {
    return among(groups.lists, of_group);
  }
  /// From the GPUs of all stages, under their stages' own numbers, stage by stage.
  ByteMatrix from_stages(const ByteMatrix& all) const;

 private:
  ByteMatrix among(const std::vector<std::vector<GpuId>>& groups, const ByteMatrix& of_group) const;

  std::vector<const StageSpace*> stages_;
  Group everybody_;
  Groups sharers_, copies_;
};

}  // namespace moesim
