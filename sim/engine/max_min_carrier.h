// SPDX-License-Identifier: Apache-2.0
// Flows at rates of our own (MaxMin), on a clock that others share.
#pragma once

#include <memory>

#include "sim/engine/flow_carrier.h"
#include "sim/plan/simulate/events.h"

namespace moesim {

/// Rates are worked out once for all flows that come and go at a time. The events must outlive it.
std::unique_ptr<FlowCarrier> make_max_min_carrier(Events& events);

}  // namespace moesim
