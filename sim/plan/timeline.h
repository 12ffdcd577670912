// SPDX-License-Identifier: Apache-2.0
// What a backend returns: when each op ran on each of its GPUs.
#pragma once

#include "sim/base/ragged.h"
#include "sim/base/types.h"

namespace moesim {

struct Interval {
  Seconds start;  // a participant's start is when it joined, so that waiting counts
  Seconds end;
  bool operator==(const Interval&) const = default;
};

struct Timeline {
  /// [op][i]: the op's only GPU (compute), or its i-th participant (exchange).
  Ragged<Interval> ops;
  Seconds makespan;
};

}  // namespace moesim
