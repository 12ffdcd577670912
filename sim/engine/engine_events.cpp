// SPDX-License-Identifier: Apache-2.0
#include "sim/engine/engine_events.h"

namespace moesim {
namespace {

// An event costs little, so that only rounding is allowed for.
constexpr Seconds engine_precision(1e-12);

/// Never destroyed: SimGrid cannot make a second one.
Simulator& engine() {
  static Simulator* const simulator = new Simulator(engine_precision);
  return *simulator;
}

}  // namespace

void EngineEvents::run() {
  start_ = engine().now();
  engine().spawn([this] { EventQueue::run(); });
  engine().run();
}

void EngineEvents::advance(Seconds time) { Simulator::sleep_until(start_ + time); }

}  // namespace moesim
