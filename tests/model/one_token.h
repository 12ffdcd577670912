// SPDX-License-Identifier: Apache-2.0
// Group counts token by token, as their definition reads.
#pragma once

#include <set>
#include <span>
#include <vector>

#include "sim/model/group_counts.h"

namespace moesim {

/// Adds one token of rank `source`; targets[k] is the GPU that serves its choice k.
inline void add_token(GroupCounts& counts, GpuId source, std::span<const GpuId> targets) {
  for (const GpuId target : targets) counts.add_choices(source, target, 1);
  for (int level = 1; level <= counts.nesting().depth(); ++level) {
    std::set<int> groups;
    for (const GpuId target : targets) groups.insert(counts.group_of(level, target));
    for (const int group : groups) counts.add_touching(source, level, group, 1);
  }
}

/// P_i[j]: tokens of the whole batch that touch group j of level i, or choices that go there.
inline std::vector<std::int64_t> totals(const GroupCounts& counts, int level, Copies copies) {
  return counts.by_index(counts.nesting().depth(), level, copies).front();
}

}  // namespace moesim
