// SPDX-License-Identifier: Apache-2.0
// Searches between two ops, from the kernel's side: kernels have few neighbours, exchanges many.
#include "sim/plan/op_order.h"

namespace moesim {

OpOrder::OpOrder(const Plan& plan)
    : plan_(plan),
      before_(dependencies(plan)),
      followers_(plan.ops.size()),
      position_(plan.ops.size()),
      seen_(plan.ops.size()) {
  std::size_t next = 0;
  for (const OpId id : topological_order(plan)) {
    position_[id.index()] = next++;
    for (const OpId earlier : before_[id.index()]) followers_[earlier.index()].push_back(id);
  }
}

template <class Within>
bool OpOrder::reaches(const std::vector<std::vector<OpId>>& edges, OpId start, OpId goal,
                      Within within) {
  ++search_;
  open_.assign(1, start);
  while (!open_.empty()) {
    const OpId at = open_.back();
    open_.pop_back();
    for (const OpId next : edges[at.index()]) {
      if (next == goal) return true;
      if (seen_[next.index()] == search_ || !within(position_[next.index()])) continue;
      seen_[next.index()] = search_;
      open_.push_back(next);
    }
  }
  return false;
}

bool OpOrder::precedes(OpId a, OpId b) {
  const std::size_t first = position_[a.index()], last = position_[b.index()];
  if (first >= last) return false;
  if (plan_[b].compute()) {
    return reaches(before_, b, a, [first](std::size_t position) { return position > first; });
  }
  return reaches(followers_, a, b, [last](std::size_t position) { return position < last; });
}

}  // namespace moesim
