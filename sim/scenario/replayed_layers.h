// SPDX-License-Identifier: Apache-2.0
// Which recorded layers the steps of a scenario replay.
#pragma once

#include <vector>

#include "sim/base/error.h"
#include "sim/model/moe_model.h"
#include "sim/scenario/scenario.h"
#include "sim/trace/routing_trace.h"

namespace moesim {

/// Indices into TraceInfo::layers; a count that differs from the model's is a warning. Throws Error
/// for layers that were not recorded, and for dense ones unless recorded layers are asked for.
std::vector<int> choose_layers(const Scenario& scenario, const TraceInfo& trace,
                               const MoeModel& model, std::vector<Diagnostic>& warnings);

}  // namespace moesim
