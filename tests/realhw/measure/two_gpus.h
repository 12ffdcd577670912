// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/topology/parse.h"

namespace moesim {

/// One host.
inline Topology two_gpus() {
  return parse(
      "nodes: 1\n"
      "node:\n"
      "  gpu: h100-sxm\n"
      "  gpus: 2\n"
      "  nvlink: {kind: switch, bandwidth: 400 GB/s, latency: 1 us}\n"
      "  pcie: {bandwidth: 64 GB/s, latency: 2 us}\n"
      "  nics: {count: 1, bandwidth: 50 GB/s, latency: 3 us}\n"
      "fabric: {kind: none}\n");
}

}  // namespace moesim
