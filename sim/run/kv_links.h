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

/// On the scenario's first topology with room for both: each GPU of the one, which come first,
/// sends an equal part to a GPU of the other, round and round. Exchanges of experts that use the
/// links at the same time are not in it. Throws Error for a topology that has no number of nodes.
KvLink kv_link(const Scenario& scenario, int prompt_gpus, int decode_gpus);

}  // namespace moesim
