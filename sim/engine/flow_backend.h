// SPDX-License-Identifier: Apache-2.0
// The backend at fidelity `flow`, on SimGrid.
#pragma once

#include <memory>

#include "sim/model/gpu_model.h"
#include "sim/plan/backend.h"

namespace moesim {

struct FlowOptions {
  /// Events closer than this part of the plan's shortest transfer happen at once.
  double precision = 1e-4;
  /// How many peers a GPU serves at once, in NCCL's order (PeerOrder); 0: all of them.
  int peers = 0;
  /// Exchanges begin and end for all their participants at once, as they do at `port`.
  bool together = false;
};

/// Runs any number of plans, also from several threads at once, each from time zero and in a
/// process of its own. The topology must outlive it.
std::unique_ptr<SimulatedBackend> make_flow_backend(const Topology& topology, const GpuModels& gpus,
                                                    const FlowOptions& options = {});

}  // namespace moesim
