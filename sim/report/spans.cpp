// SPDX-License-Identifier: Apache-2.0
#include "sim/report/spans.h"

#include <algorithm>

namespace moesim {

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
