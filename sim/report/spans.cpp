// SPDX-License-Identifier: Apache-2.0
#include "sim/report/spans.h"

#include <algorithm>

namespace moesim {

Seconds moving_from(const OpIntervals& times) {
  Seconds last;
  for (std::size_t m = 0; m < times.size(); ++m) last = std::max(last, times.start(m));
  return last;
}

std::vector<Seconds> moving_from(const Op& op, const std::vector<Interval>& times) {
  const Collectives* apart = op.apart();
  std::vector<Seconds> last(op.collectives());
  for (std::size_t m = 0; m < times.size(); ++m) {
    const auto in = apart != nullptr ? static_cast<std::size_t>(apart->of[m].collective) : 0;
    last[in] = std::max(last[in], times[m].start);
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
  const std::vector<Seconds> last = moving_from(op, {times.begin(), times.end()});
  for (OpSpan& span : spans) {
    const auto collective = static_cast<std::size_t>(op.place_of(span.member).collective);
    span.moving = std::clamp(last[collective], span.start, span.end);
  }
  return spans;
}

}  // namespace moesim
