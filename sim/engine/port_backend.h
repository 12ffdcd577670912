// SPDX-License-Identifier: Apache-2.0
// The backend at fidelity `port`.
#pragma once

#include <memory>

#include "sim/model/gpu_model.h"
#include "sim/plan/backend.h"

namespace moesim {

/// Runs any number of plans, also from several threads at once. The topology must outlive it.
std::unique_ptr<SimulatedBackend> make_port_backend(const Topology& topology,
                                                    const GpuModels& gpus);

}  // namespace moesim
