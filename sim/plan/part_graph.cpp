// SPDX-License-Identifier: Apache-2.0
#include "sim/plan/part_graph.h"

namespace moesim {

PartGraph::PartGraph(const Plan& plan) : plan_(plan) {
  for (OpId id(0); id.index() < plan.ops.size(); ++id.value) {
    first_.emplace_back(static_cast<std::int64_t>(op_.size()));
    const Op& op = plan[id];
    op_.insert(op_.end(), op.exchange() ? 1 : op.group.size(), id);
  }
  before_.resize(op_.size());
  const PartId none(-1);
  std::vector<PartId> last(static_cast<std::size_t>(plan.gpus) * lane_count, none);
  for (OpId id(0); id.index() < plan.ops.size(); ++id.value) {
    const Op& op = plan[id];
    for (std::size_t m = 0; m < op.group.size(); ++m) {
      const PartId mine = part(id, m);
      auto& waits = before_[mine.index()];
      PartId& tail = last[op.group[m].index() * lane_count + static_cast<std::size_t>(op.lane)];
      if (tail != none) waits.push_back(tail);
      tail = mine;
      for (const OpId after : op.after) {
        const Group& others = plan[after].group;
        if (const std::size_t other = others.member(op.group[m]); other < others.size()) {
          waits.push_back(part(after, other));
        }
      }
    }
  }
  // An op's parts wait for parts of ops that come before it in any order of the ops.
  for (const OpId id : topological_order(plan)) {
    const std::size_t parts = plan[id].exchange() ? 1 : plan[id].group.size();
    for (std::size_t m = 0; m < parts; ++m) order_.push_back(part(id, m));
  }
}

}  // namespace moesim
