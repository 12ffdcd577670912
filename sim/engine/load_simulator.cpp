// SPDX-License-Identifier: Apache-2.0
#include <stdexcept>

#include "sim/engine/simulator.h"
#ifdef MOESIM_SIMGRID_LOADED
#include <fmt/format.h>

#include "sim/base/loaded_library.h"
#include "sim/engine/simgrid_library.h"
#elif !defined(MOESIM_SIMGRID_LINKED)
#include "sim/base/error.h"
#endif

#ifdef MOESIM_SIMGRID_LINKED
extern "C" moesim::Simulator* moesim_make_simulator(double precision);
#endif

namespace moesim {
namespace {

using MakeSimulator = Simulator*(double precision);

MakeSimulator& maker() {
#ifdef MOESIM_SIMGRID_LOADED
  static const LoadedFunction loaded = load_function(built_simgrid, "moesim_make_simulator");
  if (loaded.function == nullptr) {
    throw std::runtime_error(fmt::format("cannot load SimGrid: {}", loaded.missing));
  }
  return *reinterpret_cast<MakeSimulator*>(loaded.function);
#elif defined(MOESIM_SIMGRID_LINKED)
  return moesim_make_simulator;
#else
  throw Error("this moesim was built without SimGrid",
              "--fidelity flow simulates the same flows without it");
#endif
}

}  // namespace

void load_simgrid() { maker(); }

std::unique_ptr<Simulator> make_simulator(Seconds precision) {
  return std::unique_ptr<Simulator>(maker()(precision.value));
}

}  // namespace moesim
