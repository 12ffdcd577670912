// SPDX-License-Identifier: Apache-2.0
// Fits the generative model to a layer of a recorded trace.
#pragma once

#include "sim/trace/routing_trace.h"
#include "sim/trace/synth/choice_model.h"

namespace moesim {

/// What was measured of a layer, all steps together, and the model that reproduces it.
struct LayerFit {
  ChoiceModel model;
  double overlap = 0;  // previous-token overlap of the recording
};

/// Popularity and partners start from the recorded loads and pairs; stickiness and a correction per
/// expert are then calibrated on pilot runs until loads and previous-token overlap come out as
/// recorded. Deterministic. Throws Error for ids that cannot be.
LayerFit fit_layer(const RoutingTrace& trace, int layer, std::int64_t sequence_length);

}  // namespace moesim
