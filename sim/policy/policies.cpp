// SPDX-License-Identifier: Apache-2.0
#include "sim/policy/policies.h"

namespace moesim {

const std::vector<RoutingMechanism>& routing_mechanisms() {
  static const std::vector<RoutingMechanism> table = {
      {"identity", "the recorded choices as they are", read_identity},
      {"capacity",
       "drops what exceeds an expert's capacity (Switch, GShard, Tutel, Megatron-LM, DeepSpeed)",
       read_capacity_routing},
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
  };
  return table;
}

const std::vector<PlacementMechanism>& placement_mechanisms() {
  static const std::vector<PlacementMechanism> table = {
      {"contiguous", "static: experts in id order over every expert-parallel group",
       read_contiguous},
      {"expert-swap", "pairs of experts exchange slots, one step behind the routing (HierMoE)",
       read_expert_swap, true},
      {"smart-moe", "experts dealt out anew by earlier loads (SmartMoE)", read_smart_moe},
      {"shadowing", "loaded experts on every GPU, chosen after the step's own gate (FasterMoE)",
       read_shadowing},
      {"pro-prophet", "loaded experts on most GPUs, planned from the step before (Pro-Prophet)",
       read_pro_prophet},
      {"hecate", "replicas hidden behind attention, by the loads of earlier steps (Hecate, FSSDP)",
       read_hecate},
      {"janus", "tokens to experts or experts to tokens, whichever moves fewer bytes (Janus)",
       read_janus},
      {"fsep", "shards of all experts on every rank, any layout restored before use (LAER-MoE)",
       read_fsep, false, "", true},
      {"fsdp-ep", "static: shards of the copies in all expert-parallel groups, gathered before use",
       read_fsdp_ep},
      {"static-best", "oracle: one placement, made knowing the whole trace", read_static_best},
      {"clairvoyant", "oracle: a placement per step, made knowing its loads, moved for nothing",
       read_clairvoyant},
      {"hybridep", "gathers experts inside domains of GPUs and data centers (HybridEP)",
       read_hybridep_placement},
      {"occult", "experts chosen together share a GPU (Occult)", read_occult, true},
      {"exflow", "experts that follow each other over the layers share a GPU (ExFlow)", read_exflow,
       true},
      {"moetuner", "balanced clusters with few transitions between GPUs (MoETuner)", read_moetuner,
       true},
      {"dynamic-grouping", "experts of similar co-choices share a GPU (an interpretation)",
       read_dynamic_grouping, true},
      {"eplb", "replicas of loaded experts, packed on nodes and GPUs (DeepSeek EPLB)", read_eplb},
      {"lplb", "replicas on fixed neighbours, a linear program splits every batch (LPLB)",
       read_lplb},
      {"trt-llm", "layers placed anew in rotation, by loads that fade (TensorRT-LLM)",
       read_trt_llm},
      {"vllm", "EPLB on a window of passes, experts keep their slots (vLLM)", read_vllm},
      {"sglang", "EPLB on the loads since the last rebalance (SGLang)", read_sglang},
      {"llep", "token-slots above capacity go, with weights, to the least loaded GPUs (LLEP)",
       read_llep},
      {"predictive-replication", "copies by predicted load, an interpretation", read_predictive},
      {"lazarus", "replicas in proportion to load, placed to outlive failures (Lazarus)",
       read_lazarus},
      {"grace", "experts grouped by co-activation, hot ones copied (GRACE-MoE)", read_grace, true},
  };
  return table;
}

const std::vector<DispatchMechanism>& dispatch_mechanisms() {
  static const std::vector<DispatchMechanism> table = {
      {"alltoall", "flat all-to-all, one copy per token and choice (Megatron-LM)", read_alltoall},
      {"dedup", "flat all-to-all, one copy per token and GPU (HD1 of HierMoE)", read_dedup, true},
      {"hierarchical",
       "level by level, slowest links first, one copy per token and group (HierMoE)",
       read_hierarchical, true},
      {"two-hop", "inside the node, then across nodes, no deduplication (Tutel 2DH, DeepSpeed-MoE)",
       read_two_hop},
      {"padded", "flat all-to-all of equal parts, padded (Tutel's linear, DeepSpeed)", read_padded},
      {"tutel", "equal parts, flat or in two hops, whichever is predicted faster (Tutel)",
       read_tutel},
      {"deepep-normal",
       "one copy per token and node, forwarded once per GPU (DeepEP V1's normal kernels)",
       read_deepep_normal, true, "deepep-normal"},
      {"deepep-low-latency", "one message per token and choice (DeepEP low-latency kernels)",
       read_deepep_low_latency, false, "deepep-ll"},
      {"deepep-v2", "as deepep-normal, without V1's rings and limits (DeepEP V2)", read_deepep_v2,
       true, "deepep-normal"},
      {"hybrid-ep", "as deepep-v2, by NVIDIA's Hybrid-EP kernels (not HybridEP, the paper)",
       read_hybrid_ep, true, "hybrid-ep"},
      {"nvlink-one-sided", "as dedup, stored over NVLink inside one host (TensorRT-LLM)",
       read_nvlink_one_sided, true, "nvlink-one-sided"},
      {"allgather", "every row to every rank, results by reduce-scatter (Megatron-LM)",
       read_all_gather, false, "nccl-ring"},
      {"fastmoe", "one all-to-all after the other, each for one expert of every rank (FastMoE)",
       read_fastmoe},
      {"schemoe-pipe", "inside nodes and between nodes at once (Pipe-A2A of ScheMoE)",
       read_schemoe_pipe},
      {"hybridep",
       "level by level between GPUs of equal offset in expert domains (HybridEP, the paper)",
       read_hybridep_dispatch},
  };
  return table;
}

const std::vector<ScheduleMechanism>& schedule_mechanisms() {
  static const std::vector<ScheduleMechanism> table = {
      {"sequential", "one layer after the other, forward then backward, no overlap",
       read_sequential},
      {"overlap", "expert parameters travel while tokens are exchanged and computed (FSEP)",
       read_overlap},
  };
  return table;
}

}  // namespace moesim
