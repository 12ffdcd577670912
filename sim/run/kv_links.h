// SPDX-License-Identifier: Apache-2.0
// What a cluster's links carry of keys and values between two of its instances.
#pragma once

#include "sim/base/types.h"
#include "sim/scenario/inputs.h"

namespace moesim {

struct KvLink {
  BytesPerSecond bandwidth;  // of an instance that computes prompts, all its GPUs together
  Seconds latency;
};

/// Uses the scenario's first topology, with enough nodes for both. Each prompt GPU sends an equal
/// part to one decode GPU, round-robin. Ignores expert exchanges on the same links. Throws Error if
/// the topology has no `nodes`.
KvLink kv_link(const Scenario& scenario, int prompt_gpus, int decode_gpus);

}  // namespace moesim
