// SPDX-License-Identifier: Apache-2.0
// The table of routing rules: a new one is its file, its reader here and its row.
#include "sim/mechanism/mechanisms.h"

namespace moesim {

RoutingMaker read_identity(const YamlMap& params);
RoutingMaker read_capacity_routing(const YamlMap& params);
RoutingMaker read_rank_capacity(const YamlMap& params);
RoutingMaker read_batch_aware(const YamlMap& params);
RoutingMaker read_group_limited(const YamlMap& params);
RoutingMaker read_node_limited(const YamlMap& params);
RoutingMaker read_gpu_limited(const YamlMap& params);
RoutingMaker read_occult_prune(const YamlMap& params);
RoutingMaker read_in_turn(const YamlMap& params);
RoutingMaker read_c2r(const YamlMap& params);
RoutingMaker read_external_routing(const YamlMap& params, PolicySources& sources);

const std::vector<RoutingMechanism>& routing_mechanisms() {
  static const std::vector<RoutingMechanism> table = {
      {"identity", "the recorded choices as they are", read_identity},
      {"capacity",
       "drops what exceeds an expert's capacity (Switch, GShard, Tutel, Megatron-LM, DeepSpeed)",
       read_capacity_routing},
      {"rank-capacity",
       "drops what exceeds the capacity of a rank (Megatron-LM), an interpretation",
       read_rank_capacity, true},
      {"batch-aware", "few experts for all tokens of a batch together (OEA, XShare), approximated",
       read_batch_aware},
      {"group-limited", "experts of few groups for each token (DeepSeek-V3, Megatron-LM)",
       read_group_limited, true},
      {"node-limited", "experts of few nodes for each token (DeepSeek-V3)", read_node_limited,
       true},
      {"gpu-limited", "experts of few GPUs for each token (two-stage gates)", read_gpu_limited,
       true},
      {"occult-prune", "experts on few GPUs for each token (Occult), approximated",
       read_occult_prune, true},
      {"in-turn", "experts in turn, token by token: forced balance as NeMo AutoModel's gate has it",
       read_in_turn},
      {"c2r", "the best expert and partners of it (C2R), approximated", read_c2r, true},
      {"external", "what a program of one's own says: JSON lines over a pipe", nullptr, true, "",
       false, read_external_routing},
  };
  return table;
}

}  // namespace moesim
