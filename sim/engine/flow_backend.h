// SPDX-License-Identifier: Apache-2.0
// The backends at fidelities `flow` and `simgrid`: a flow per pair of GPUs.
#pragma once

#include <memory>

#include "sim/model/gpu_model.h"
#include "sim/plan/backend.h"
#include "sim/topology/connections.h"

namespace moesim {

struct FlowOptions {
  /// Flows whose ends are closer than this part of their exchange's transfer, or of the plan's
  /// shortest at `simgrid`, may end together.
  double precision = 1e-3;
  /// How many peers a GPU serves at once, in NCCL's order (PeerOrder); 0: all of them.
  int peers = 0;
  /// Exchanges begin and end for all their participants at once, as they do at `port`.
  bool together = false;
  /// What carries the messages in place of fair shares, if neither of the two above is asked for.
  std::shared_ptr<const Connections> connections = {};
};
/// SimGrid takes what ends together to end with the first of it, which costs bytes.
inline constexpr double simgrid_precision = 1e-4;

/// Rates are our own. Runs any number of plans. The topology must outlive it.
std::unique_ptr<SimulatedBackend> make_flow_backend(const Topology& topology, const GpuModels& gpus,
                                                    const FlowOptions& options = {});

/// Rates are those of SimGrid's network model. A process per plan, also from several threads at
/// once. Throws std::runtime_error if SimGrid cannot be loaded.
std::unique_ptr<SimulatedBackend> make_simgrid_backend(const Topology& topology,
                                                       const GpuModels& gpus,
                                                       const FlowOptions& options = {
                                                           .precision = simgrid_precision});

}  // namespace moesim
