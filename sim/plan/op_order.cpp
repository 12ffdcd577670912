// SPDX-License-Identifier: Apache-2.0
// Searches between two ops, from the kernel's side: kernels have few neighbours, exchanges many.
#include "sim/plan/op_order.h"

namespace moesim {

OpOrder::OpOrder(const Plan& plan)
    : plan_(plan),
      graph_(plan),
      followers_(graph_.size()),
      position_(graph_.size()),
      seen_(graph_.size()) {
  std::size_t next = 0;
  for (const PartId part : graph_.order()) {
    position_[part.index()] = next++;
    for (const PartId earlier : graph_.before(part)) followers_[earlier.index()].push_back(part);
  }
}

template <class Within>
bool OpOrder::reaches(const std::vector<std::vector<PartId>>& edges, PartId start, PartId goal,
                      Within within) {
  ++search_;
  open_.assign(1, start);
  while (!open_.empty()) {
    const PartId at = open_.back();
    open_.pop_back();
    for (const PartId next : edges[at.index()]) {
      if (next == goal) return true;
      if (seen_[next.index()] == search_ || !within(position_[next.index()])) continue;
      seen_[next.index()] = search_;
      open_.push_back(next);
    }
  }
  return false;
}

bool OpOrder::precedes(OpId a, OpId b, GpuId gpu) {
  const Group &of_a = plan_[a].group, &of_b = plan_[b].group;
  if (!of_a.contains(gpu) || !of_b.contains(gpu)) return false;
  const PartId first = graph_.part(a, of_a.member(gpu)), last = graph_.part(b, of_b.member(gpu));
  const std::size_t begin = position_[first.index()], end = position_[last.index()];
  if (begin >= end) return false;
  if (plan_[b].kernels()) {
    return reaches(graph_.before(), last, first,
                   [begin](std::size_t position) { return position > begin; });
  }
  return reaches(followers_, first, last, [end](std::size_t position) { return position < end; });
}

}  // namespace moesim
