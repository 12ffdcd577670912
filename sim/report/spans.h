// SPDX-License-Identifier: Apache-2.0
// What GPUs did and when: charts and files of trace events are made only of this.
#pragma once

#include <algorithm>
#include <vector>

#include "sim/plan/plan.h"
#include "sim/plan/timeline.h"

namespace moesim {

/// An op on one of its GPUs.
struct OpSpan {
  GpuId gpu;
  std::size_t member = 0;  // of the op's group
  Seconds start;
  Seconds moving;  // of an exchange: when its last participant had joined; else the start
  Seconds end;
};

/// [collective] When its last participant has joined, of an op's intervals by member. An op that is
/// not several exchanges apart has one. No time before zero.
template <class Intervals>
std::vector<Seconds> moving_from(const Op& op, const Intervals& times) {
  std::vector<Seconds> last(op.collectives());
  for (std::size_t m = 0; m < times.size(); ++m) {
    Seconds& its = last[static_cast<std::size_t>(op.place_of(m).collective)];
    its = std::max(its, times[m].start);
  }
  return last;
}

/// Spans of the `gpus` that take part, in their order; `times`: of the op, by member.
std::vector<OpSpan> spans_of(const Op& op, const OpIntervals& times,
                             const std::vector<GpuId>& gpus);

}  // namespace moesim
