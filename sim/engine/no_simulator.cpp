// SPDX-License-Identifier: Apache-2.0
// Programs that were built without SimGrid.
#include "sim/base/error.h"
#include "sim/engine/simulator.h"

namespace moesim {

void load_simgrid() {
  throw Error("this moesim was built without SimGrid",
              "--fidelity flow simulates the same flows without it");
}

std::unique_ptr<Simulator> make_simulator(Seconds) {
  load_simgrid();
  return nullptr;
}

}  // namespace moesim
