// SPDX-License-Identifier: Apache-2.0
// Events on the clock of SimGrid's engine.
#pragma once

#include "sim/engine/simulator.h"

namespace moesim {

/// One simulation after the other on the one engine that a process can hold: an actor sleeps from
/// each event to the next. Times count from the start of the simulation, as exact as they were
/// given, so that nothing depends on what the engine simulated before. For one thread.
class EngineEvents : public EventQueue {
 public:
  void run() override;

 private:
  void advance(Seconds time) override;

  Seconds start_;  // on the engine's clock
};

}  // namespace moesim
