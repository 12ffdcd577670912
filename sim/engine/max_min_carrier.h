// SPDX-License-Identifier: Apache-2.0
// Flows at rates of our own (MaxMin), on a clock that others share.
#pragma once

#include <memory>

#include "sim/engine/flow_carrier.h"
#include "sim/plan/simulate/events.h"

namespace moesim {

/// Rates are computed once for all flows that start or end together. The events must outlive it.
std::unique_ptr<FlowCarrier> make_max_min_carrier(Events& events);

}  // namespace moesim
