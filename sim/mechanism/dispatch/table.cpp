// SPDX-License-Identifier: Apache-2.0
// The table of dispatches: a new one is its file, its reader here and its row.
#include "sim/mechanism/mechanisms.h"

namespace moesim {

DispatchMaker read_alltoall(const YamlMap& params);
DispatchMaker read_dedup(const YamlMap& params);
DispatchMaker read_hierarchical(const YamlMap& params);
DispatchMaker read_two_hop(const YamlMap& params);
DispatchMaker read_padded(const YamlMap& params);
DispatchMaker read_tutel(const YamlMap& params);
DispatchMaker read_deepep_normal(const YamlMap& params);
DispatchMaker read_deepep_low_latency(const YamlMap& params);
DispatchMaker read_deepep_v2(const YamlMap& params);
DispatchMaker read_hybrid_ep(const YamlMap& params);
DispatchMaker read_nvlink_one_sided(const YamlMap& params);
DispatchMaker read_all_gather(const YamlMap& params);
DispatchMaker read_fused(const YamlMap& params);
DispatchMaker read_fastmoe(const YamlMap& params);
DispatchMaker read_schemoe_pipe(const YamlMap& params);
DispatchMaker read_hybridep_dispatch(const YamlMap& params);

const std::vector<DispatchMechanism>& dispatch_mechanisms() {
  // Name, what it does, reader, needs_tokens, transport.
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
      {.name = "deepep-normal",
       .description =
           "one copy per token and node, forwarded once per GPU (DeepEP V1's normal kernels)",
       .read = read_deepep_normal,
       .needs_tokens = true,
       .transport = "deepep-normal",
       .needs_host = true},
      {"deepep-low-latency", "one message per token and choice (DeepEP low-latency kernels)",
       read_deepep_low_latency, false, "deepep-ll"},
      {"deepep-v2", "as deepep-normal, without V1's rings and limits (DeepEP V2)", read_deepep_v2,
       true, "deepep-v2"},
      {"hybrid-ep", "as deepep-v2, by NVIDIA's Hybrid-EP kernels (not HybridEP, the paper)",
       read_hybrid_ep, true, "hybrid-ep"},
      {"nvlink-one-sided", "as dedup, stored over NVLink inside one host (TensorRT-LLM)",
       read_nvlink_one_sided, true, "nvlink-one-sided"},
      {"fused", "one copy per token and choice, over NVLink, by the kernel that computes (MegaMoE)",
       read_fused, false, "nvlink-one-sided"},
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

}  // namespace moesim
