// SPDX-License-Identifier: Apache-2.0
// What the time of a step consists of, and which part binds it. Defined in docs/metrics.md.
#pragma once

#include <string>

#include "sim/plan/plan.h"
#include "sim/plan/timeline.h"

namespace moesim {

/// Parts of the mean GPU's step, which add up to it. Everything but compute is time with an idle
/// compute lane; where several exchanges run at once the first of the list counts.
struct Breakdown {
  Seconds compute;    // the compute lane works
  Seconds tokens;     // token exchanges move data, or their minimum times pass
  Seconds weights;    // exchanges of expert parameters do, migrations included
  Seconds gradients;  // those of gradients do
  Seconds waiting;    // in exchanges that the slowest participant has not joined yet
  Seconds idle;       // in no exchange: the host, the end of slower GPUs
  // Beside these:
  Seconds slowest_compute;  // of the GPU that computes longest
  Seconds overlapped;       // time in exchanges that compute hides

  void add(const Breakdown& other);
  bool operator==(const Breakdown&) const = default;
};

/// The largest of the parts that add up to the step, "tokens" or the like, the first of equals.
struct Binding {
  const char* what = "";
  Seconds time;
};
Binding binding_part(const Breakdown& breakdown);

Breakdown step_breakdown(const Plan& plan, const Timeline& timeline);

}  // namespace moesim
