// SPDX-License-Identifier: Apache-2.0
// What GPUs did and when: charts and files of trace events are made only of this.
#pragma once

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

/// When the last participant has joined; of the op's intervals.
Seconds moving_from(const OpIntervals& times);

/// [collective] of an op that is several exchanges apart; else one. No time before zero.
std::vector<Seconds> moving_from(const Op& op, const std::vector<Interval>& times);

/// Spans of the `gpus` that take part, in their order; `times`: of the op, by member.
std::vector<OpSpan> spans_of(const Op& op, const OpIntervals& times,
                             const std::vector<GpuId>& gpus);

}  // namespace moesim
