// SPDX-License-Identifier: Apache-2.0
// The interface that simulator and hardware share.
#pragma once

#include <functional>
#include <utility>

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

  /// How long a run is likely to take on one core, to an order of magnitude; 0 if that is short.
  virtual Seconds likely_time(const PricedPlan& /*plan*/) const { return Seconds(0); }
  /// Told now and then, during a run that may be long, what part of it is done.
  using Watch = std::function<void(double part)>;
  void watch(Watch watch) { watch_ = std::move(watch); }

 protected:
  /// Empty if nobody watches.
  const Watch& watch() const { return watch_; }

 private:
  const Topology& topology_;
  Watch watch_;
};

}  // namespace moesim
