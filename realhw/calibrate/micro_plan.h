// SPDX-License-Identifier: Apache-2.0
// A small plan whose ops are measured one by one. Calibrations consist of such plans, executed by
// the runner that executes steps, so that launch and progress are in their times.
#pragma once

#include <string>
#include <vector>

#include "realhw/core/routed_layer.h"
#include "sim/plan/plan.h"
#include "sim/plan/timeline.h"

namespace moesim {

struct MicroPlan {
  std::string name;  // unique among those of a calibration
  Plan plan;
  std::vector<RoutedLayer> layers = {};  // of plans with experts
};

/// How long an exchange took in a timeline: from the last participant's start to the last end.
Seconds time_of_exchange(const OpIntervals& participants);

/// What is measured in addition to the other sizes of its plan.
enum class Probe {
  sized,  // one of many sizes
  empty,
  tiny,  // nothing, and one byte to each peer
  alone,
  beside,  // kernels and exchanges by themselves, and at once
};
const char* name_of(Probe probe);
OpKey key_of(Probe probe);
bool is_probe(const Op& op, Probe probe);

/// Appends an exchange on a stream. Without traffic it is still joined by all participants.
OpId add_exchange(Plan& plan, Probe probe, Stream stream, ByteMatrix traffic,
                  std::vector<OpId> after = {});

/// Appends an all-to-all of one byte per pair (OpKind::settle). A rank that has ended it knows that
/// all have begun it, so the next exchange starts nearly together.
OpId add_settle(Plan& plan, std::vector<OpId> after = {});

}  // namespace moesim
