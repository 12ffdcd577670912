// SPDX-License-Identifier: Apache-2.0
#include "sim/run/backends.h"

#include "sim/analytic/analytic_backend.h"
#include "sim/engine/flow_backend.h"
#include "sim/engine/p2p_schedule.h"
#include "sim/engine/port_backend.h"

namespace moesim {

std::unique_ptr<SimulatedBackend> make_backend(Fidelity fidelity, P2pOrder order,
                                               const ClusterInput& cluster) {
  return make_backend(fidelity, order, cluster, cluster.gpus);
}

std::unique_ptr<SimulatedBackend> make_backend(Fidelity fidelity, P2pOrder order,
                                               const ClusterInput& cluster, const GpuModels& gpus) {
  const int peers = order == P2pOrder::nccl ? nccl_peers : 0;
  const FlowOptions flow{.peers = peers, .connections = cluster.connections};
  switch (fidelity) {
    case Fidelity::port:
      return make_port_backend(cluster.topology, gpus);
    case Fidelity::flow:
      return make_flow_backend(cluster.topology, gpus, flow);
    case Fidelity::simgrid:
      return make_simgrid_backend(cluster.topology, gpus,
                                  {.precision = simgrid_precision, .peers = peers});
    case Fidelity::analytic:
      return make_analytic_backend(cluster.topology, gpus);
  }
  return nullptr;
}

std::vector<std::unique_ptr<SimulatedBackend>> make_backends(
    const std::vector<Fidelity>& fidelities, P2pOrder order, const ClusterInput& cluster) {
  std::vector<std::unique_ptr<SimulatedBackend>> backends;
  for (const Fidelity fidelity : fidelities) {
    backends.push_back(make_backend(fidelity, order, cluster));
  }
  return backends;
}

std::string backend_name(Fidelity fidelity, P2pOrder order) {
  const std::string& name = fidelity_names[static_cast<std::size_t>(fidelity)];
  return has_flows(fidelity) && order == P2pOrder::nccl ? name + "-nccl" : name;
}

ExchangeRules exchange_rules(Fidelity fidelity) {
  return {.links_shared = fidelity != Fidelity::analytic, .together = !has_flows(fidelity)};
}

}  // namespace moesim
