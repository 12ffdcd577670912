// SPDX-License-Identifier: Apache-2.0
// What `port` is held to: SimGrid's own sharing of the links, an execution for each exchange and
// link. Slow, and a process per run.
#pragma once

#include <memory>

#include "sim/model/gpu_model.h"
#include "sim/plan/backend.h"

namespace moesim::test {

/// A link is a host, whose executions get equal shares; an exchange ends with its last execution.
std::unique_ptr<SimulatedBackend> make_served_backend(const Topology& topology,
                                                      const GpuModels& gpus);

}  // namespace moesim::test
