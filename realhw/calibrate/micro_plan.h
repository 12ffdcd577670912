// SPDX-License-Identifier: Apache-2.0
// A small plan whose ops are measured one by one: what all calibration is made of.
#pragma once

#include <string>
#include <vector>

#include "realhw/core/routed_layer.h"
#include "sim/plan/plan.h"
#include "sim/plan/timeline.h"

namespace moesim {

struct MicroPlan {
  /// Ops without a meaning of their own, such as those that bring all ranks together, are `settle`.
  static constexpr const char* settle = "settle";

  std::string name;  // unique among those of a calibration
  Plan plan;
  std::vector<RoutedLayer> layers = {};  // of plans with experts
};

/// How long an exchange took in a timeline: from the last participant's start to the last end.
Seconds time_of_exchange(const std::vector<Interval>& participants);

/// Appends an exchange on a lane. Without traffic it is still joined by all participants.
OpId add_exchange(Plan& plan, const std::string& name, Lane lane, ByteMatrix traffic,
                  std::vector<OpId> after = {});

/// Appends an all-to-all of one byte per pair: who ends it knows that all have begun it.
OpId add_settle(Plan& plan, std::vector<OpId> after = {});

}  // namespace moesim
