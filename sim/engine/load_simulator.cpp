// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <stdexcept>

#include "sim/base/loaded_library.h"
#include "sim/engine/simgrid_library.h"
#include "sim/engine/simulator.h"

namespace moesim {
namespace {

using MakeSimulator = Simulator*(double precision);

MakeSimulator& maker() {
  static const LoadedFunction loaded = load_function(built_simgrid, "moesim_make_simulator");
  if (loaded.function == nullptr) {
    throw std::runtime_error(fmt::format("cannot load SimGrid: {}", loaded.missing));
  }
  return *reinterpret_cast<MakeSimulator*>(loaded.function);
}

}  // namespace

void load_simgrid() { maker(); }

std::unique_ptr<Simulator> make_simulator(Seconds precision) {
  return std::unique_ptr<Simulator>(maker()(precision.value));
}

}  // namespace moesim
