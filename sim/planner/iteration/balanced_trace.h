// SPDX-License-Identifier: Apache-2.0
// Forced balance: routing that no trace has recorded.
#pragma once

#include "sim/trace/routing_trace.h"

namespace moesim {

/// Experts of a gate in equal groups of consecutive ids; a token uses few of them.
struct GateGroups {
  int groups = 1;
  int kept = 1;
};

/// One step of `tokens` tokens in sequences of `sequence`. Every token chooses top_k different
/// experts at random, all alike likely, as benchmarks with forced balance do (Megatron-LM,
/// --moe-router-force-load-balancing), whose random scores pass the gate's limit of groups: each
/// kept group has one of the choices at least, because the best groups are those with the best
/// experts (of 4 kept groups DeepSeek-V3's gate uses 3.97). `info` names experts, top_k and layers.
/// Layers share few tables of choices.
RoutingTrace balanced_trace(TraceInfo info, std::int64_t tokens, std::int64_t sequence,
                            GateGroups gate = {});

}  // namespace moesim
