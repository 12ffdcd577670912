// SPDX-License-Identifier: Apache-2.0
// The table of placements: a new one is its file, its reader here and its row.
#include "sim/mechanism/mechanisms.h"

namespace moesim {

PlacementMaker read_contiguous(const YamlMap& params);
PlacementMaker read_no_placement(const YamlMap& params);
PlacementMaker read_expert_swap(const YamlMap& params);
PlacementMaker read_smart_moe(const YamlMap& params);
PlacementMaker read_shadowing(const YamlMap& params);
PlacementMaker read_pro_prophet(const YamlMap& params);
PlacementMaker read_hecate(const YamlMap& params);
PlacementMaker read_janus(const YamlMap& params);
PlacementMaker read_fsep(const YamlMap& params);
PlacementMaker read_fsdp_ep(const YamlMap& params);
PlacementMaker read_static_best(const YamlMap& params);
PlacementMaker read_clairvoyant(const YamlMap& params);
PlacementMaker read_hybridep_placement(const YamlMap& params);
PlacementMaker read_occult(const YamlMap& params);
PlacementMaker read_exflow(const YamlMap& params);
PlacementMaker read_moetuner(const YamlMap& params);
PlacementMaker read_dynamic_grouping(const YamlMap& params);
PlacementMaker read_eplb(const YamlMap& params);
PlacementMaker read_lplb(const YamlMap& params);
PlacementMaker read_trt_llm(const YamlMap& params);
PlacementMaker read_vllm(const YamlMap& params);
PlacementMaker read_sglang(const YamlMap& params);
PlacementMaker read_llep(const YamlMap& params);
PlacementMaker read_moon_ep(const YamlMap& params);
PlacementMaker read_ultra_ep(const YamlMap& params);
PlacementMaker read_echo(const YamlMap& params);
PlacementMaker read_feplb(const YamlMap& params);
PlacementMaker read_waterfill(const YamlMap& params);
PlacementMaker read_probe(const YamlMap& params);
PlacementMaker read_free_balance(const YamlMap& params);
PlacementMaker read_predictive(const YamlMap& params);
PlacementMaker read_craft(const YamlMap& params);
PlacementMaker read_lazarus(const YamlMap& params);
PlacementMaker read_grace(const YamlMap& params);
PlacementMaker read_external(const YamlMap& params, PolicySources& sources);
PlacementMaker read_given(const YamlMap& params, PolicySources& sources);

const std::vector<PlacementMechanism>& placement_mechanisms() {
  static const std::vector<PlacementMechanism> table = {
      {"contiguous", "static: experts in id order over every expert-parallel group",
       read_contiguous},
      {"given", "what a file says, one or many over time: placements in use", nullptr, false, "",
       false, read_given},
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
      {.name = "fsdp-ep",
       .description =
           "static: shards of the copies in all expert-parallel groups, gathered before use",
       .read = read_fsdp_ep,
       .divides_experts = true},
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
      {.name = "dynamic-grouping",
       .description = "experts of similar co-choices share a GPU (an interpretation)",
       .read = read_dynamic_grouping,
       .needs_tokens = true,
       .divides_experts = true},
      {"eplb", "replicas of loaded experts, packed on nodes and GPUs (DeepSeek EPLB)", read_eplb},
      {"lplb", "replicas on fixed neighbours, a linear program splits every batch (LPLB)",
       read_lplb},
      {"trt-llm", "layers placed anew in rotation, by loads that fade (TensorRT-LLM)",
       read_trt_llm},
      {"vllm", "EPLB on a window of passes, experts keep their slots (vLLM)", read_vllm},
      {"sglang", "EPLB on the loads since the last rebalance (SGLang)", read_sglang},
      {"llep", "token-slots above capacity go, with weights, to the least loaded GPUs (LLEP)",
       read_llep},
      {"moon-ep", "as many token-slots on every GPU, planned after the gate (MoonEP)",
       read_moon_ep},
      {"ultra-ep", "quotas of token-slots for replicas in the NVLink domain (UltraEP)",
       read_ultra_ep},
      {"echo", "surplus token-slots to spare slots of other GPUs, with their experts (ECHO)",
       read_echo},
      {"feplb", "whole experts to other GPUs of the NVLink domain, after the gate (FEPLB)",
       read_feplb},
      {"waterfill", "the shared expert as a choice of its own, for ranks with few rows (SGLang)",
       read_waterfill, true},
      {"probe", "copies for the next layer by a predicted gate (PROBE, an interpretation)",
       read_probe, true},
      {"free-balance", "experts swapped before the gate (FreeBalance, an interpretation)",
       read_free_balance, true},
      {"predictive-replication", "copies by predicted load, an interpretation", read_predictive},
      {"craft", "a budget of replicas for the layers that gain most, by a profile (CRAFT)",
       read_craft},
      {"lazarus", "replicas in proportion to load, placed to outlive failures (Lazarus)",
       read_lazarus},
      {"grace", "experts grouped by co-activation, hot ones copied (GRACE-MoE)", read_grace, true},
      {"none", "dense models have no experts to place", read_no_placement, false, "", false,
       nullptr, true},
      {"external", "what a program of one's own says: JSON lines over a pipe", nullptr, false, "",
       false, read_external},
  };
  return table;
}

}  // namespace moesim
