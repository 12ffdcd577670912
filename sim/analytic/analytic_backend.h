// SPDX-License-Identifier: Apache-2.0
// The closed-form backend: every exchange takes its latency plus its busiest link's bytes /
// bandwidth. The communicators of one phase count as simultaneous and share links; other exchanges
// do not contend. Ops are scheduled on their streams.
#pragma once

#include <memory>

#include "sim/model/gpu_model.h"
#include "sim/plan/backend.h"
#include "sim/topology/topology.h"

namespace moesim {

/// The topology must outlive the backend.
std::unique_ptr<SimulatedBackend> make_analytic_backend(const Topology& topology,
                                                        const GpuModels& gpus);

}  // namespace moesim
