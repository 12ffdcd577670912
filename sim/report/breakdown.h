// SPDX-License-Identifier: Apache-2.0
// What the time of a step consists of, and which part binds it. Defined in docs/metrics.md.
#pragma once

#include <string>

#include "sim/plan/plan.h"
#include "sim/plan/timeline.h"

namespace moesim {

/// Parts of the mean GPU's step. The first six add up to the step, so every moment counts once:
/// everything but compute is time with an idle compute stream, and if several exchanges run at once
/// the first of the list counts.
struct Breakdown {
  Seconds compute;    // the compute stream works
  Seconds tokens;     // token exchanges move data, or their minimum times pass
  Seconds weights;    // exchanges of expert parameters move data, migrations included
  Seconds gradients;  // exchanges of gradients move data
  Seconds waiting;    // in exchanges that the slowest participant has not joined yet
  Seconds idle;       // in no exchange: host work, or slower GPUs have not ended
  // Not among the parts:
  Seconds slowest_compute;  // of the GPU that computes longest
  Seconds overlapped;       // time in exchanges that compute hides

  void add(const Breakdown& other);
  bool operator==(const Breakdown&) const = default;
};

/// The largest of the six parts, by its name ("tokens"); the first of equals.
struct Binding {
  const char* what = "";
  Seconds time;
};
Binding binding_part(const Breakdown& breakdown);

Breakdown step_breakdown(const Plan& plan, const Timeline& timeline);

}  // namespace moesim
