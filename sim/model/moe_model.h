// SPDX-License-Identifier: Apache-2.0
// A mixture-of-experts architecture: what models/moe/*.yaml describes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/yaml.h"

namespace moesim {

enum class DataType { fp8, bf16, fp16, fp32 };
int size_of(DataType type);  // bytes per element
const char* name_of(DataType type);

enum class GateScore { softmax, sigmoid };

/// The attention of one transformer layer, as far as its time goes: what else may hide transfers.
struct Attention {
  std::int64_t parameters = 0;   // weights of all its projections
  std::int64_t score_width = 0;  // over all heads: widths of query-key and value
};

struct MoeModel {
  std::string name;
  std::string description;
  std::string source;
  int hidden = 0;               // width of a token vector
  int layers = 0;               // transformer layers in all
  std::vector<int> moe_layers;  // 0-based numbers of the MoE layers, ascending
  int experts = 0;              // routed experts per MoE layer
  int top_k = 0;
  int expert_ffn = 0;       // intermediate width of one routed expert
  int expert_matrices = 3;  // 3: gated (gate, up, down), 2: plain (up, down)
  int shared_experts = 0;
  int shared_ffn = 0;  // total intermediate width of one shared expert
  DataType activations = DataType::bf16;
  DataType weights = DataType::bf16;
  GateScore gate_score = GateScore::softmax;
  int gate_groups = 1;       // group-limited gate: expert groups ...
  int gate_kept_groups = 1;  // ... of which a token may use this many
  std::optional<Attention> attention;
  double total_parameters = 0;  // published total, an upper bound for checks; 0 when unknown

  Bytes row_bytes() const;                 // one token vector: hidden x size_of(activations)
  std::int64_t expert_parameters() const;  // matrices x hidden x expert_ffn
};

/// Reads models/moe/*.yaml; throws Error with all its mistakes.
MoeModel read_moe_model(const std::string& path, const std::vector<Override>& overrides = {});
MoeModel parse_moe_model(const std::string& text, const std::string& name,
                         const std::vector<Override>& overrides = {});

}  // namespace moesim
