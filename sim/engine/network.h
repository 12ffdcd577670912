// SPDX-License-Identifier: Apache-2.0
// What carries exchanges inside a simulation: one implementation per fidelity.
#pragma once

#include <functional>
#include <memory>

#include "sim/engine/simulator.h"
#include "sim/plan/plan.h"
#include "sim/topology/topology.h"

namespace moesim {

class Network {
 public:
  virtual ~Network() = default;
  /// Carries an exchange that its last participant joined at `start`, now or later, and calls
  /// `ended` from an actor when it ends for all of them.
  virtual void launch(OpId op, const ByteMatrix& traffic, Seconds start,
                      std::function<void()> ended) = 0;
};

/// One activity per link that can bind; without pruning one per loaded link. Adds its part of the
/// platform to the simulator, which must outlive it like topology and plan.
std::unique_ptr<Network> make_port_network(Simulator& simulator, const Topology& topology,
                                           const Plan& plan, bool prune);

/// A part of the plan's shortest transfer, and at least a nanosecond: the precision for `flow`.
Seconds flow_precision(const Topology& topology, const Plan& plan, double part);

/// One communication per pair of GPUs and path; all pairs of an exchange at once (peers 0), or in
/// NCCL's order with so many peers of a GPU at a time (PeerOrder).
std::unique_ptr<Network> make_flow_network(Simulator& simulator, const Topology& topology,
                                           const Plan& plan, int peers);

}  // namespace moesim
