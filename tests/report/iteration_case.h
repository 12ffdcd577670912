// SPDX-License-Identifier: Apache-2.0
// A case of one iteration on 8 GPUs.
#pragma once

#include <string>
#include <utility>

#include "sim/report/case_report.h"
#include "sim/topology/reader.h"

namespace moesim::test {

inline const Topology& eight_gpus() {
  static const Topology topology = std::move(
      parse_topology("source: test\nnodes: 1\nnode: {gpu: h100-sxm, gpus: 8, nvlink: {kind: "
                     "switch, bandwidth: 50 GB/s, latency: 1 us}, nics: {count: 1, "
                     "bandwidth: 5 GB/s, latency: 1 us}}\nfabric: {kind: none}\n",
                     "test")
          .topology);
  return topology;
}

inline CaseResult iteration_case(const std::string& topology, const std::string& policy,
                                 const std::string& routing, double seconds,
                                 std::int64_t tokens = 100) {
  CaseResult c;
  c.name = {topology, policy, "port", routing};
  c.topology = &eight_gpus();
  c.metrics.steps = {Seconds(seconds)};
  c.metrics.tokens = tokens;
  IterationFigures& figures = c.metrics.iteration.emplace();
  figures.times.iteration = Seconds(seconds);
  figures.count = 1;
  return c;
}

}  // namespace moesim::test
