// SPDX-License-Identifier: Apache-2.0
#include "sim/report/spans.h"

#include <algorithm>

namespace moesim {

Seconds moving_from(std::span<const Interval> times) {
  Seconds last;
  for (const Interval& each : times) last = std::max(last, each.start);
  return last;
}

std::vector<OpSpan> spans_of(const Op& op, std::span<const Interval> times,
                             const std::vector<GpuId>& gpus) {
  std::vector<OpSpan> spans;
  for (const GpuId gpu : gpus) {
    const std::size_t member = op.group.member(gpu);
    if (member >= times.size()) continue;
    const auto& [start, end] = times[member];
    spans.push_back({gpu, member, start, start, end});
  }
  if (op.exchange() == nullptr || spans.empty()) return spans;
  const Seconds last = moving_from(times);
  for (OpSpan& span : spans) span.moving = std::clamp(last, span.start, span.end);
  return spans;
}

}  // namespace moesim
