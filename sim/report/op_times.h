// SPDX-License-Identifier: Apache-2.0
// Time per op kind, by one definition for simulated and measured timelines, so that they compare.
#pragma once

#include <compare>
#include <map>
#include <string>

#include "sim/plan/plan.h"
#include "sim/plan/timeline.h"

namespace moesim {

/// Ops of one label, stage and stream, forward and backward.
struct OpGroup {
  std::string name;
  Stage stage = Stage::other;
  Stream stream = Stream::compute;
  auto operator<=>(const OpGroup&) const = default;
};

/// Means over GPUs, sums over the ops of a step.
struct OpTimes {
  /// Kernels: from start to end. Exchanges: from the last participant's joining to the last one's
  /// end, for every participant. Why: a GPU that comes late then makes no exchange longer, and an
  /// exchange that ends for each GPU by itself has the same time as one that ends for all together.
  std::map<OpGroup, Seconds> kinds;
  Seconds waiting;  // in exchanges, until the last participant joined

  /// Adds factor x the other's times.
  void add(const OpTimes& other, double factor);
};

OpTimes op_times(const Plan& plan, const Timeline& timeline);

}  // namespace moesim
