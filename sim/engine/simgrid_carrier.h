// SPDX-License-Identifier: Apache-2.0
// Flows as communications of SimGrid, at the rates of its network model.
#pragma once

#include <memory>

#include "sim/engine/flow_carrier.h"
#include "sim/engine/simulator.h"

namespace moesim {

/// Adds its platform to the simulator, which must outlive it.
std::unique_ptr<FlowCarrier> make_simgrid_carrier(Simulator& simulator, int gpus);

}  // namespace moesim
