// SPDX-License-Identifier: Apache-2.0
// The closed-form backend: every exchange takes its latency plus its busiest link's bytes /
// bandwidth, alone on the network; ops are scheduled on their lanes without contention between
// exchanges.
#pragma once

#include <memory>

#include "sim/model/gpu_model.h"
#include "sim/plan/backend.h"
#include "sim/topology/topology.h"

namespace moesim {

/// The topology must outlive the backend.
std::unique_ptr<Backend> make_analytic_backend(const Topology& topology, const GpuModels& gpus);

}  // namespace moesim
