// SPDX-License-Identifier: Apache-2.0
#include "sim/balance/training/smart_schedule.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/error.h"

namespace moesim {

std::vector<ScheduleStep> smart_schedule(int world, int group_size,
                                         std::span<const ExpertId> shadows, SchedulePass pass) {
  const int size = std::min(group_size, world);
  if (size < 1 || world % size != 0) {
    throw Error(fmt::format("{} ranks do not form groups of {}", world, group_size));
  }
  const int groups = world / size;
  std::vector<ScheduleStep> steps;
  const auto add = [&](ScheduleWork work, int group, ExpertId expert, std::vector<int> after) {
    steps.push_back({work, group, expert, std::move(after)});
    return static_cast<int>(steps.size()) - 1;
  };
  const auto on_shadows = [&](ScheduleWork work, ScheduleWork next) {
    std::vector<int> first;
    for (const ExpertId e : shadows) first.push_back(add(work, 0, e, {}));
    return [&, first, next] {
      for (std::size_t i = 0; i < shadows.size(); ++i) add(next, 0, shadows[i], {first[i]});
    };
  };
  std::vector<int> sends, computes;
  for (int k = 0; k < groups; ++k) sends.push_back(add(ScheduleWork::send, k, {}, {}));
  const bool forward = pass == SchedulePass::forward;
  const auto finish_shadows =
      forward ? on_shadows(ScheduleWork::broadcast, ScheduleWork::shadow_compute)
              : on_shadows(ScheduleWork::shadow_compute, ScheduleWork::reduce);
  if (!forward) finish_shadows();
  for (int k = 0; k < groups; ++k) {
    computes.push_back(add(ScheduleWork::compute, k, {}, {sends[static_cast<std::size_t>(k)]}));
  }
  if (forward) finish_shadows();
  for (int k = 0; k < groups; ++k) {
    add(ScheduleWork::receive, k, {}, {computes[static_cast<std::size_t>(k)]});
  }
  return steps;
}

}  // namespace moesim
