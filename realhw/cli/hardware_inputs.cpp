// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "realhw/cli/commands.h"

namespace moesim {

Inputs open_hardware_inputs(const Scenario& scenario, int ranks) {
  if (scenario.topologies.size() != 1) throw Error("moesim-hw takes one topology");
  if (scenario.fidelities != std::vector{Fidelity::port}) {
    throw Error("'fidelity' has no effect on hardware", "leave it out");
  }
  if (scenario.p2p_order != P2pOrder::all_at_once) {
    throw Error("'p2p_order' has no effect on hardware", "leave it out");
  }
  Inputs inputs = open_inputs(scenario);
  const Topology& topology = inputs.clusters[0].topology;
  if (topology.gpu_count() != ranks) {
    throw Error(fmt::format("{} has {} GPUs, but {} process{}", topology.name(),
                            topology.gpu_count(), ranks, ranks == 1 ? " runs" : "es run"),
                fmt::format("start {} ranks (docs/realhw.md), or take another cluster by --set "
                            "topology.nodes=...",
                            topology.gpu_count()));
  }
  return inputs;
}

}  // namespace moesim
