// SPDX-License-Identifier: Apache-2.0
// Activations and their gradients on the way between pipeline stages.
#pragma once

#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "sim/planner/iteration/block_ops.h"
#include "sim/planner/iteration/stage_space.h"
#include "sim/planner/parallel/layer_layout.h"
#include "sim/planner/pipeline/pipeline.h"

namespace moesim {

/// Sends what a pass of a microbatch leaves on one stage to the next: every GPU to that of the same
/// number. One op per cell, or one of all cells that take equal times.
class Transfers {
 public:
  /// All must outlive it. `joins_on`: the cluster, if cells with equal times are to be one op,
  /// which they start and end by themselves if they are `apart`.
  Transfers(const std::vector<StageSpace>& stages, const Pipeline& pipeline,
            const LayerLayout& layers, const Topology* joins_on, bool apart)
      : stages_(stages),
        pipeline_(pipeline),
        layers_(layers),
        joins_on_(joins_on),
        apart_(apart),
        sent_(static_cast<std::size_t>(pipeline.stages())) {}

  /// What `work` left on a stage goes to the next position of its way.
  void send(Plan& plan, int stage, const StageWork& work, Pass way, const Mark& done);
  /// What `work` waits for on a stage: the transfers, or what ended itself within a stage. Once.
  std::vector<OpId> take_arrivals(int stage, const StageWork& work, Pass way);
  /// Transfers that the next turn of a stage awaits of those before it: none, unless the pipeline
  /// awaits what it sends. Once.
  std::vector<OpId> take_sent(int stage);

 private:
  struct Way {
    std::vector<Group> senders;  // [cell] under their own numbers
    PhaseTraffic moved;          // [cell] of senders and receivers, under numbers of the plan
  };
  using ArrivalKey = std::tuple<Pass, int, int>;  // microbatch, position

  /// What the receivers wait for. `tensors`: that travel, each of a microbatch's activations.
  std::vector<OpId> add(Plan& plan, int from, int to, WorkCell cell, Pass pass, int position,
                        const Mark& done, int tensors);
  const Way& way(int from, int to);
  /// Neighbours of a stage on different streams, so that it sends to one while it receives from the
  /// other.
  Stream stream(int from, int to) const;

  const std::vector<StageSpace>& stages_;
  const Pipeline& pipeline_;
  const LayerLayout& layers_;
  const Topology* joins_on_;
  bool apart_;
  std::map<std::pair<int, int>, Way> ways_;
  std::map<ArrivalKey, std::vector<OpId>> arrivals_;  // that nobody waits for yet
  std::vector<std::vector<OpId>> sent_;               // [stage] since its last turn
};

}  // namespace moesim
