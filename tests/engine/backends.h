// SPDX-License-Identifier: Apache-2.0
// The simulating backends, as cases of the shared suite.
#pragma once

#include "sim/analytic/analytic_backend.h"
#include "sim/engine/flow_backend.h"
#include "sim/engine/port_backend.h"
#include "tests/engine/backend_suite.h"
#include "tests/engine/served_backend.h"

namespace moesim::test {

inline BackendCase simgrid_with(std::string name, FlowOptions options) {
  options.precision = simgrid_precision;
  return {.name = std::move(name),
          .make =
              [options](const Topology& topology, const GpuModels& gpus) {
                return make_simgrid_backend(topology, gpus, options);
              },
          .together = options.together,
          .tolerance = 1e-6};
}

inline BackendCase flow_with(std::string name, FlowOptions options) {
  return {.name = std::move(name),
          .make = [options](
                      const Topology& topology,
                      const GpuModels& gpus) { return make_flow_backend(topology, gpus, options); },
          .together = options.together,
          .tolerance = 1e-6};
}

inline const BackendCase port_case = {.name = "port", .make = make_port_backend};
inline const BackendCase served_case = {.name = "served", .make = make_served_backend};
inline const BackendCase flow_case = flow_with("flow", {});
inline const BackendCase together_case = flow_with("flow_together", {.together = true});
inline const BackendCase simgrid_case = simgrid_with("simgrid", {});
inline const BackendCase analytic_case = {
    .name = "analytic", .make = make_analytic_backend, .shares_links = false};

}  // namespace moesim::test
