// SPDX-License-Identifier: Apache-2.0
// Placements in use: files that say which expert is in which slot.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "sim/model/moe_model.h"
#include "sim/plan/placement.h"

namespace moesim {

/// The slots of one layer as a file has them, in the order of the ranks.
struct GivenSlots {
  std::vector<int> experts;             // by slot, from 0 on
  std::vector<int> slots_of_rank = {};  // empty: the file knows no ranks, all have equally many
  int line = 0;                         // from 1
};

/// A placement file as it was recognized, not yet checked against a model.
struct PlacementFile {
  std::string path;
  std::string form;                    // what it was recognized as: "the map of SGLang"
  std::map<int, GivenSlots> numbered;  // by model layer
  std::vector<GivenSlots> rows;        // without numbers: of all layers, of all MoE layers, or one
  /// Of lists inside a list that were taken as ranks, because some lack experts: each as a layer.
  std::vector<GivenSlots> as_layers = {};
};

/// Reads YAML, JSON or lines of numbers. What it recognizes:
///   - `initial_global_assignments` of TensorRT-LLM, also below moe_config.load_balancer
///   - `physical_to_logical_map` of SGLang and vLLM, `phy2log` of EPLB with or without `layers`
///   - `log2phy`, the same by expert
///   - `expert_to_ep_rank`: the rank of every expert, of one layer or many
///   - `rank_to_experts`, or keys rank0, rank1, ...: the experts of every rank, as Megatron and
///     DeepSpeed deal them out
///   - lists: the experts of all slots, by layer, by rank, or by layer and rank
/// Throws Error with all mistakes that show without a model.
PlacementFile read_placement_file(const std::string& path);
/// Turns a `.pt` of torch.save into JSON with the same keys. Importers can, and this folder is
/// below them: a program that has them sets it before it reads placements; others refuse such
/// files.
void read_torch_placements_by(std::string (*json_of)(const std::string& path));
PlacementFile parse_placement(const std::string& text, const std::string& name);

struct GivenLayers {
  std::vector<SlotTable> tables;   // of each layer
  std::vector<int> left_out = {};  // MTP layers without a placement, which are contiguous
};

/// The experts in the slots of `ranks` ranks, for each of some model layers. Throws Error with the
/// line of what does not fit: a layer that is missing, an expert that the model lacks or that has
/// no slot, slots that the ranks cannot share evenly.
GivenLayers slots_in(const PlacementFile& file, const MoeModel& model,
                     const std::vector<int>& layers, int ranks);

}  // namespace moesim
