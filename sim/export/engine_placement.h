// SPDX-License-Identifier: Apache-2.0
// Placements as the engines that people run take them, and costs of sending between ranks for
// balancers that place experts by them.
#pragma once

#include <string>
#include <vector>

#include "sim/base/types.h"
#include "sim/plan/placement.h"
#include "sim/topology/topology.h"

namespace moesim {

/// [from][to]: how long `size` bytes (> 0) take from one rank to another, with nothing else on the
/// links: latency of the route + bytes / bandwidth of its slowest link, without the overhead of an
/// exchange. 0 from a rank to itself.
std::vector<std::vector<Seconds>> rank_costs(const Topology& topology, Bytes size);

/// JSON {"rank_cost_matrix": [[us]]}, as the option --eplb-topology that is proposed for SGLang
/// reads it.
std::string rank_costs_text(const std::vector<std::vector<Seconds>>& costs);

/// The placements of a model's layers, for one EP group.
struct EnginePlacement {
  struct Layer {
    int number = 0;   // model layer number
    SlotTable slots;  // [rank][slot]
  };
  int experts = 0;
  int model_layers = 0;       // dense ones included, those of MTP not
  std::vector<Layer> layers;  // ascending; behind model_layers those of MTP
};

/// Layers of a placement that a format has no room for: those of MTP in sglang.
std::vector<int> layers_left_out(const EnginePlacement& placement, const std::string& format);

/// "trtllm", "sglang", "vllm", "eplb".
const std::vector<std::string>& engine_formats();

/// The text of a file in one of these formats, all slots in rank order:
///   trtllm  YAML of moe_config.load_balancer: num_slots and the expert of each slot, by model
///   layer
///           (TensorRT-LLM, examples/wide_ep/ep_load_balancer)
///   sglang  JSON of --init-expert-location: physical_to_logical_map [model layers][slots]; dense
///           layers, and MoE layers that are not there, have the experts in turn; none of MTP
///   vllm    JSON of --expert-placement-file: expert_to_ep_rank [experts], one for all layers
///   eplb    JSON of the three maps of DeepSeek's EPLB, [layers][...]: phy2log [slots], log2phy
///           [experts][replicas], filled up with -1, and logcnt [experts]
/// Throws Error if a format cannot say it: ranks with unequal numbers of slots, and for vllm
/// replicas, ranks with unequal numbers of experts or layers that differ.
std::string engine_placement_text(const EnginePlacement& placement, const std::string& format);

}  // namespace moesim
