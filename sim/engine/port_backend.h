// SPDX-License-Identifier: Apache-2.0
// The backend at fidelity `port`.
#pragma once

#include <memory>

#include "sim/model/gpu_model.h"
#include "sim/plan/backend.h"

namespace moesim {

/// Runs any number of plans, each in a child process with an engine of its own, so that whoever
/// asks may simulate at `simgrid` too. The topology must outlive it.
std::unique_ptr<SimulatedBackend> make_port_backend(const Topology& topology,
                                                    const GpuModels& gpus);

/// Runs them one after the other on SimGrid's engine of this process, which can simulate nothing at
/// `simgrid` from then on: a process has one engine, whose platform cannot change once it has run.
std::unique_ptr<SimulatedBackend> make_local_port_backend(const Topology& topology,
                                                          const GpuModels& gpus);

}  // namespace moesim
