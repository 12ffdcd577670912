// SPDX-License-Identifier: Apache-2.0
#include "sim/plan/part_graph.h"

#include "sim/plan/waits.h"

namespace moesim {

PartGraph::PartGraph(const Plan& plan) : plan_(plan) {
  for (OpId id(0); id.index() < plan.ops.size(); ++id.value) {
    first_.emplace_back(static_cast<std::int64_t>(op_.size()));
    const Op& op = plan[id];
    op_.insert(op_.end(), op.exchange() ? op.collectives() : op.group.size(), id);
  }
  before_.resize(op_.size());
  for_each_wait(plan, [&](OpId earlier, std::size_t its_member, OpId op, std::size_t member) {
    before_[part(op, member).index()].push_back(part(earlier, its_member));
  });
  // An op's parts wait for parts of ops that come before it in any order of the ops.
  for (const OpId id : topological_order(plan)) {
    const std::size_t parts = plan[id].exchange() ? plan[id].collectives() : plan[id].group.size();
    for (std::size_t p = 0; p < parts; ++p) {
      order_.emplace_back(first_[id.index()].value + static_cast<std::int64_t>(p));
    }
  }
}

}  // namespace moesim
