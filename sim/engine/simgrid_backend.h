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
  /// At `port`: leave out links that cannot bind. It changes no time, only the speed.
  bool prune = true;
  /// At `flow`: events closer than this part of the plan's shortest transfer happen at once.
  double flow_precision = 1e-4;
  /// At `flow`: how many peers a GPU serves at once, in NCCL's order (PeerOrder); 0: all of them.
  int flow_peers = 0;
  /// At `flow`: exchanges begin and end for all their participants at once, as they do at `port`.
  bool flow_together = false;
};

/// One backend may run any number of plans, also from several threads at once, each from time zero
/// and in a process of its own.
/// Topology must outlive it.
std::unique_ptr<SimulatedBackend> make_simgrid_backend(const Topology& topology,
                                                       const GpuModels& gpus,
                                                       const SimgridOptions& options = {});

}  // namespace moesim
