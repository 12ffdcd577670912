// SPDX-License-Identifier: Apache-2.0
// Waits for ops that are left out become waits for the kept ops before them.
#include "sim/plan/slice.h"

#include <algorithm>

#include "sim/base/ordering.h"
#include "sim/plan/part_graph.h"

namespace moesim {
namespace {

constexpr OpId left_out(-1);

/// Per op the nearest kept ops before it (itself not counted).
std::vector<std::vector<OpId>> kept_before(const Plan& plan, const std::vector<OpId>& number) {
  const PartGraph graph(plan);
  std::vector<std::vector<OpId>> kept(graph.size());  // [part]
  std::vector<std::vector<OpId>> of_op(plan.ops.size());
  for (const PartId part : graph.order()) {
    std::vector<OpId>& mine = kept[part.index()];
    for (const PartId earlier : graph.before(part)) {
      const OpId op = graph.op(earlier);
      const std::vector<OpId>& through = kept[earlier.index()];
      if (number[op.index()] != left_out) {
        mine.push_back(op);
      } else {
        mine.insert(mine.end(), through.begin(), through.end());
      }
    }
    sort_once(mine);
    auto& list = of_op[graph.op(part).index()];
    list.insert(list.end(), mine.begin(), mine.end());
  }
  for (auto& list : of_op) sort_once(list);
  return of_op;
}

}  // namespace

Plan slice(const Plan& plan, const std::vector<OpId>& kept) {
  std::vector<OpId> number(plan.ops.size(), left_out);
  for (std::size_t i = 0; i < kept.size(); ++i) {
    number[kept[i].index()] = OpId(static_cast<std::int64_t>(i));
  }
  const auto before = kept_before(plan, number);
  Plan result{plan.name, plan.gpus, {}, plan.transports};
  for (const OpId id : kept) {
    result.ops.push_back(plan[id]);
    Op& op = result.ops.back();
    op.after.clear();
    for (const OpId earlier : before[id.index()]) {
      if (plan[earlier].group.meets(op.group)) op.after.push_back(number[earlier.index()]);
    }
  }
  return result;
}

}  // namespace moesim
