// SPDX-License-Identifier: Apache-2.0
// Forced balance: routing that no trace has recorded.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/trace/routing_trace.h"

namespace moesim {

/// Experts of a gate in equal groups of consecutive ids; a token uses few of them.
struct GateGroups {
  int groups = 1;
  int kept = 1;
};

/// Source ranks that choose alike: what one chooses, moved to as many experts as it is away from
/// the first. So each sends and gets as much as any other, which random choices only come near to.
struct AlikeRanks {
  /// What a rank's place is made of, the fastest part first; their product is the ranks of an EP
  /// group. Each part moves by itself, so that choices stay within hosts and groups of the gate.
  std::vector<int> parts;
  std::vector<int> place;  // [replica x shares + share] in its EP group
  int replicas = 1;        // who get sequences in turn
  int shares = 1;          // equal ones of a replica's microbatch
  int micro_batch = 1;     // sequences of a replica
  int ranks() const {
    int all = 1;
    for (const int part : parts) all *= part;
    return all;
  }
};

/// One step of sequences of these lengths. Every token chooses top_k different
/// experts at random, all alike likely, as benchmarks with forced balance do (Megatron-LM,
/// --moe-router-force-load-balancing), whose random scores pass the gate's limit of groups: each
/// kept group has one of the choices at least, because the best groups are those with the best
/// experts (of 4 kept groups DeepSeek-V3's gate uses 3.97). `info` names experts, top_k and layers.
/// Layers share few tables of choices. Throws Unsuitable for more than a billion choices.
RoutingTrace balanced_trace(TraceInfo info, std::vector<std::int32_t> lengths,
                            GateGroups gate = {});
/// The same of `tokens` tokens in sequences of `sequence`.
RoutingTrace balanced_trace(TraceInfo info, std::int64_t tokens, std::int64_t sequence,
                            GateGroups gate = {});
/// The same for ranks that choose alike; layers share one table. The tokens are those of whole
/// microbatches of all replicas.
RoutingTrace balanced_trace(TraceInfo info, std::int64_t tokens, std::int64_t sequence,
                            GateGroups gate, const AlikeRanks& alike);

}  // namespace moesim
