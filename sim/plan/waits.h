// SPDX-License-Identifier: Apache-2.0
// What every GPU waits for before it starts an op.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "sim/plan/plan.h"

namespace moesim {

/// Whether the members of some are found faster one by one than by going through both groups.
inline bool is_far_smaller(const Group& some, const Group& others) {
  return some.size() * 4 < others.size() || some.size() == 1;
}

/// Calls visit(i, j) for every GPU in both groups, their i-th and j-th, ascending.
template <class Visit>
void for_each_common(const Group& a, const Group& b, Visit visit) {
  if (a.shares_list(b)) {
    for (std::size_t i = 0; i < a.size(); ++i) visit(i, i);
    return;
  }
  if (b.has_no_gaps()) {
    for (std::size_t i = a.first_from(b.front()); i < a.size() && a[i] <= b.back(); ++i) {
      visit(i, static_cast<std::size_t>(a[i].value - b.front().value));
    }
    return;
  }
  if (a.has_no_gaps()) {
    for (std::size_t j = b.first_from(a.front()); j < b.size() && b[j] <= a.back(); ++j) {
      visit(static_cast<std::size_t>(b[j].value - a.front().value), j);
    }
    return;
  }
  if (is_far_smaller(b, a)) {
    for (std::size_t j = 0; j < b.size(); ++j) {
      if (const std::size_t i = a.member(b[j]); i < a.size()) visit(i, j);
    }
    return;
  }
  if (is_far_smaller(a, b)) {
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (const std::size_t j = b.member(a[i]); j < b.size()) visit(i, j);
    }
    return;
  }
  std::size_t j = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    while (j < b.size() && b[j] < a[i]) ++j;
    if (j < b.size() && b[j] == a[i]) visit(i, j);
  }
}

/// Calls visit(earlier, its member, op, member) for what an op waits for on each of its GPUs: the
/// op before it on the GPU's stream, and those of its `after` that the GPU runs; op by op in the
/// order of the plan. What is in `after` twice comes twice. Needs the plan's ids in range.
template <class Visit>
void for_each_wait(const Plan& plan, Visit visit) {
  struct Last {
    OpId op{-1};
    std::size_t member = 0;
  };
  // Stream by stream, because an op looks at one stream of many GPUs that follow each other.
  const auto gpus = static_cast<std::size_t>(plan.gpus);
  std::vector<Last> last(gpus * stream_count);
  std::vector<OpId> on_stream;  // per member of the op, what is before it on its stream
  for (OpId id(0); id.index() < plan.ops.size(); ++id.value) {
    const Op& op = plan[id];
    on_stream.clear();
    for (std::size_t m = 0; m < op.group.size(); ++m) {
      Last& before = last.at(static_cast<std::size_t>(op.stream) * gpus + op.group[m].index());
      if (before.op.value >= 0) visit(before.op, before.member, id, m);
      on_stream.push_back(before.op);
      before = {id, m};
    }
    for (const OpId after : op.after) {
      for_each_common(op.group, plan[after].group, [&](std::size_t m, std::size_t other) {
        if (on_stream[m] != after) visit(after, other, id, m);
      });
    }
  }
}

}  // namespace moesim
