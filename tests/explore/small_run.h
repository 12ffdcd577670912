// SPDX-License-Identifier: Apache-2.0
// Two policies on four GPUs: a page's run of a moment.
#pragma once

#include <string>

#include "sim/explore/asked.h"

namespace moesim {

inline AskedRun small_run() {
  AskedRun asked;
  asked.text = "topology: hiermoe-a6000\nmodel: tiny-moe\ntrace: " MOESIM_ROOT
               "/traces/tiny-moe-train\n"
               "policy: [alltoall, dedup]\nsteps: 1\ntokens_per_rank: 8\nlayers: [1]\n";
  asked.overrides = {{"set", "topology.nodes=2", "page"}, {"set", "topology.node.gpus=2", "page"}};
  return asked;
}

}  // namespace moesim
