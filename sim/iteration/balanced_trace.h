// SPDX-License-Identifier: Apache-2.0
// Forced balance: routing that no trace has recorded.
#pragma once

#include "sim/trace/routing_trace.h"

namespace moesim {

/// One step of `tokens` tokens in sequences of `sequence`. Every token chooses top_k different
/// experts at random, all alike likely, as benchmarks with forced balance do (Megatron-LM,
/// --moe-router-force-load-balancing); `info` names experts, top_k and layers. Layers share few
/// tables of choices.
RoutingTrace balanced_trace(TraceInfo info, std::int64_t tokens, std::int64_t sequence);

}  // namespace moesim
