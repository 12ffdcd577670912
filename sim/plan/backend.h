// SPDX-License-Identifier: Apache-2.0
// The interface that simulator and hardware share.
#pragma once

#include "sim/plan/plan.h"
#include "sim/plan/priced.h"
#include "sim/plan/timeline.h"

namespace moesim {

class Backend {
 public:
  virtual ~Backend() = default;
  /// Runs a checked plan from time zero. Throws std::runtime_error when an op never finishes.
  virtual Timeline run(const Plan& plan) = 0;
};

/// Simulates plans on a topology, which must outlive it.
class SimulatedBackend : public Backend {
 public:
  explicit SimulatedBackend(const Topology& topology) : topology_(topology) {}
  virtual Timeline run(const PricedPlan& plan) = 0;
  Timeline run(const Plan& plan) override { return run(PricedPlan(plan, topology_)); }

 private:
  const Topology& topology_;
};

}  // namespace moesim
