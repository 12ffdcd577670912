// SPDX-License-Identifier: Apache-2.0
#include "sim/report/op_times.h"

#include <algorithm>

namespace moesim {

void OpTimes::add(const OpTimes& other, double factor) {
  for (const auto& [kind, time] : other.kinds) kinds[kind] += time * factor;
  waiting += other.waiting * factor;
}

OpTimes op_times(const Plan& plan, const Timeline& timeline) {
  OpTimes times;
  const double share = 1.0 / plan.gpus;
  for (std::size_t i = 0; i < plan.ops.size(); ++i) {
    const Op& op = plan.ops[i];
    Seconds last_start, last_end;
    for (const Interval& interval : timeline.ops[i]) {
      last_start = std::max(last_start, interval.start);
      last_end = std::max(last_end, interval.end);
    }
    Seconds& sum = times.kinds[{op.label, op.key.stage, op.stream}];
    if (op.kernels() != nullptr) {
      for (const Interval& of_gpu : timeline.ops[i]) sum += (of_gpu.end - of_gpu.start) * share;
      continue;
    }
    sum += (last_end - last_start) * (share * static_cast<double>(timeline.ops[i].size()));
    for (const Interval& interval : timeline.ops[i]) {
      times.waiting += (std::min(last_start, interval.end) - interval.start) * share;
    }
  }
  return times;
}

}  // namespace moesim
