// SPDX-License-Identifier: Apache-2.0
// The SimGrid backend at its two fidelities; the only folder that includes SimGrid.
#pragma once

#include <memory>

#include "sim/model/gpu_model.h"
#include "sim/plan/backend.h"
#include "sim/topology/topology.h"

namespace moesim {

struct SimgridOptions {
  enum class Fidelity { port, flow };
  Fidelity fidelity = Fidelity::port;
};

/// SimGrid allows one engine per process: a second backend in one process throws std::logic_error.
/// One backend may run any number of plans, each from time zero. Topology and models must outlive it.
std::unique_ptr<Backend> make_simgrid_backend(const Topology& topology, const GpuModels& gpus,
                                              const SimgridOptions& options = {});

}  // namespace moesim
