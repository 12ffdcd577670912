// SPDX-License-Identifier: Apache-2.0
// The simulating backends, as cases of the shared suite.
#pragma once

#include "sim/analytic/analytic_backend.h"
#include "sim/engine/simgrid_backend.h"
#include "tests/engine/backend_suite.h"

namespace moesim::test {

inline BackendCase simgrid_case(std::string name, SimgridOptions options, double tolerance) {
  return {.name = std::move(name),
          .make =
              [options](const Topology& topology, const GpuModels& gpus) {
                return make_simgrid_backend(topology, gpus, options);
              },
          .together = options.fidelity == SimgridOptions::Fidelity::port || options.flow_together,
          .tolerance = tolerance};
}

inline const BackendCase port_case = simgrid_case("port", {}, 1e-9);
inline const BackendCase unpruned_case = simgrid_case("unpruned", {.prune = false}, 1e-9);
inline const BackendCase flow_case =
    simgrid_case("flow", {.fidelity = SimgridOptions::Fidelity::flow}, 1e-6);
inline const BackendCase together_case = simgrid_case(
    "flow_together", {.fidelity = SimgridOptions::Fidelity::flow, .flow_together = true}, 1e-6);
inline const BackendCase analytic_case = {
    .name = "analytic", .make = make_analytic_backend, .shares_links = false};

}  // namespace moesim::test
