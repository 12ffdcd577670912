// SPDX-License-Identifier: Apache-2.0
// Waits for ops that are left out become waits for the kept ops before them.
#include "sim/plan/slice.h"

#include <algorithm>

#include "sim/plan/check.h"

namespace moesim {
namespace {

constexpr OpId left_out(-1);

bool share_gpu(const Op& a, const Op& b) {
  const auto x = gpus_of(a), y = gpus_of(b);
  return std::find_first_of(x.begin(), x.end(), y.begin(), y.end()) != x.end();
}

void sort_once(std::vector<OpId>& ids) {
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
}

/// Per op the nearest kept ops before it (itself not counted).
std::vector<std::vector<OpId>> kept_before(const Plan& plan, const std::vector<OpId>& number) {
  const std::vector<std::vector<OpId>> before = dependencies(plan);
  std::vector<std::vector<OpId>> kept(plan.ops.size());
  for (const OpId id : topological_order(plan)) {
    std::vector<OpId>& mine = kept[id.index()];
    for (const OpId earlier : before[id.index()]) {
      const std::vector<OpId>& through = kept[earlier.index()];
      if (number[earlier.index()] != left_out) {
        mine.push_back(earlier);
      } else {
        mine.insert(mine.end(), through.begin(), through.end());
      }
    }
    sort_once(mine);
  }
  return kept;
}

}  // namespace

Plan slice(const Plan& plan, const std::vector<OpId>& kept) {
  std::vector<OpId> number(plan.ops.size(), left_out);
  for (std::size_t i = 0; i < kept.size(); ++i) {
    number[kept[i].index()] = OpId(static_cast<std::int64_t>(i));
  }
  const auto before = kept_before(plan, number);
  Plan result{plan.name, plan.gpus, {}};
  for (const OpId id : kept) {
    Op op = plan[id];
    op.after.clear();
    for (const OpId earlier : before[id.index()]) {
      if (share_gpu(plan[earlier], op)) op.after.push_back(number[earlier.index()]);
    }
    result.add(std::move(op));
  }
  return result;
}

}  // namespace moesim
