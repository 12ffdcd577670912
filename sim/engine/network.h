// SPDX-License-Identifier: Apache-2.0
// What carries exchanges inside a simulation: one implementation per fidelity.
#pragma once

#include <functional>
#include <memory>

#include "sim/engine/simulator.h"
#include "sim/plan/priced.h"
#include "sim/plan/progress.h"

namespace moesim {

class Network {
 public:
  /// Calls it from an actor when an exchange ends for a participant, or for all of them.
  using Ended = std::function<void(OpId op, std::int32_t participant)>;
  static constexpr std::int32_t everyone = -1;

  virtual ~Network() = default;
  /// A participant joins an exchange, now or later.
  virtual void join(const Progress::Joined& joined) = 0;
};

/// One activity per link that can bind; without pruning one per loaded link. Exchanges begin when
/// all have joined and end for everyone at once. Adds its part of the platform to the simulator,
/// which must outlive it like the plan.
std::unique_ptr<Network> make_port_network(Simulator& simulator, const PricedPlan& plan, bool prune,
                                           Network::Ended ended);

/// A part of the plan's shortest transfer, and at least a nanosecond: the precision for `flow`.
Seconds flow_precision(const PricedPlan& plan, double part);

struct FlowOptions {
  int peers = 0;          // of a GPU at a time, in NCCL's order (PeerOrder); 0: all of them
  bool together = false;  // exchanges begin and end for all at once
};

/// One communication per pair of GPUs and path, which begins when both have joined the exchange; it
/// ends for a GPU with the last of its own.
std::unique_ptr<Network> make_flow_network(Simulator& simulator, const PricedPlan& plan,
                                           const FlowOptions& options, Network::Ended ended);

}  // namespace moesim
