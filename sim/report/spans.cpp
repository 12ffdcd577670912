// SPDX-License-Identifier: Apache-2.0
#include "sim/report/spans.h"

#include <algorithm>

namespace moesim {

Seconds moving_from(const OpIntervals& times) {
  Seconds last;
  for (const Interval& each : times) last = std::max(last, each.start);
  return last;
}

std::vector<Seconds> moving_from(const Op& op, const OpIntervals& times) {
  const Collectives* apart = op.apart();
  if (apart == nullptr) return {moving_from(times)};
  std::vector<Seconds> last(apart->members.size());
  for (std::size_t m = 0; m < times.size(); ++m) {
    Seconds& of_its = last[static_cast<std::size_t>(apart->of[m].collective)];
    of_its = std::max(of_its, times[m].start);
  }
  return last;
}

std::vector<OpSpan> spans_of(const Op& op, const OpIntervals& times,
                             const std::vector<GpuId>& gpus) {
  std::vector<OpSpan> spans;
  for (const GpuId gpu : gpus) {
    const std::size_t member = op.group.member(gpu);
    if (member >= times.size()) continue;
    const auto& [start, end] = times[member];
    spans.push_back({gpu, member, start, start, end});
  }
  if (op.exchange() == nullptr || spans.empty()) return spans;
  const std::vector<Seconds> last = moving_from(op, times);
  for (OpSpan& span : spans) {
    const auto collective = static_cast<std::size_t>(op.place_of(span.member).collective);
    span.moving = std::clamp(last[collective], span.start, span.end);
  }
  return spans;
}

}  // namespace moesim
