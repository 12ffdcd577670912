// SPDX-License-Identifier: Apache-2.0
#include "sim/engine/port_backend.h"

#include "sim/engine/engine_backend.h"
#include "sim/engine/port_network.h"

namespace moesim {

std::unique_ptr<SimulatedBackend> make_port_backend(const Topology& topology,
                                                    const GpuModels& gpus) {
  return make_engine_backend(topology, gpus, false, make_port_network);
}

std::unique_ptr<SimulatedBackend> make_local_port_backend(const Topology& topology,
                                                          const GpuModels& gpus) {
  return make_engine_backend(topology, gpus, true, make_port_network);
}

}  // namespace moesim
