// SPDX-License-Identifier: Apache-2.0
// Reads models/moe/*.yaml.
#include <fmt/format.h>

#include "sim/base/most.h"
#include "sim/model/moe_model.h"

namespace moesim {
namespace {

const std::vector<std::string> data_types = {"fp8", "bf16", "fp16", "fp32"};
constexpr Range possible_size{1, 1 << 20};

DataType data_type(const YamlMap& map, const std::string& key) {
  return static_cast<DataType>(map.choice(key, data_types));
}

std::vector<int> moe_layers(const YamlMap& map, int layers) {
  std::vector<int> result;
  const auto value = map.get("moe_layers");
  if (!value) return result;
  const YamlMap range = value->map();
  const auto first = range.integer("first", {0, 1 << 20});
  const auto number = range.integer("count", possible_size);
  const auto stride = range.integer("stride", possible_size, 1);
  if (map.good({"layers", "moe_layers"}) && first + (number - 1) * stride >= layers) {
    value->error(fmt::format("'moe_layers' ends at layer {}, but 'layers' is {}",
                             first + (number - 1) * stride, layers),
                 "layer numbers count from 0");
  }
  for (std::int64_t i = 0; i < number; ++i) result.push_back(static_cast<int>(first + i * stride));
  return result;
}

void read_gate(const YamlMap& map, MoeModel& model) {
  const auto value = map.find("gate");
  if (!value) return;
  const YamlMap gate = value->map();
  model.gate_score = static_cast<GateScore>(gate.choice("score", {"softmax", "sigmoid"}, 0));
  model.gate_groups = static_cast<int>(gate.integer("groups", possible_size, 1));
  model.gate_kept_groups =
      static_cast<int>(gate.integer("kept_groups", possible_size, model.gate_groups));
  if (!map.good({"experts", "gate"})) return;
  if (model.experts % model.gate_groups != 0) {
    gate.find("groups")->error(fmt::format("'gate.groups' is {}, which does not divide {} experts",
                                           model.gate_groups, model.experts));
  }
  if (model.gate_kept_groups > model.gate_groups) {
    gate.find("kept_groups")
        ->error(fmt::format("'gate.kept_groups' is {}, more than the {} groups",
                            model.gate_kept_groups, model.gate_groups));
  }
}

/// Either the heads, or, for other forms of attention, what they amount to.
void read_attention(const YamlMap& map, MoeModel& model) {
  const auto value = map.find("attention");
  if (!value) return;
  const YamlMap attention = value->map();
  if (attention.find("parameters")) {
    model.attention = {attention.integer("parameters", {1, std::int64_t{1} << 40}),
                       attention.integer("score_width", {1, std::int64_t{1} << 30})};
    return;
  }
  const std::int64_t heads = attention.integer("heads", possible_size);
  const std::int64_t kv_heads = attention.integer("kv_heads", possible_size, heads);
  const std::int64_t width = attention.integer("head_dim", possible_size);
  model.attention = {model.hidden * width * (2 * heads + 2 * kv_heads), 2 * heads * width};
}

MoeModel read_model(YamlDocument& doc) {
  const YamlMap map = doc.root().map();
  MoeModel model;
  model.name = map.string("name");
  model.description = map.string("description", "");
  model.source = map.string("source");
  model.hidden = static_cast<int>(map.integer("hidden", possible_size));
  model.layers = static_cast<int>(map.integer("layers", possible_size));
  model.moe_layers = moe_layers(map, model.layers);
  model.experts = static_cast<int>(map.integer("experts", {1, max_experts}));
  model.top_k = static_cast<int>(map.integer("top_k", {1, 32}));
  model.expert_ffn = static_cast<int>(map.integer("expert_ffn", possible_size));
  model.expert_matrices = static_cast<int>(map.integer("expert_matrices", {2, 3}));
  model.shared_experts = static_cast<int>(map.integer("shared_experts", {0, 1024}, 0));
  if (const auto shared = map.find("shared_ffn")) {
    model.shared_ffn = static_cast<int>(shared->integer(possible_size));
    if (map.good({"shared_experts"}) && model.shared_experts == 0) {
      shared->error("'shared_ffn' has no effect: 'shared_experts' is 0", "take it away");
    }
  } else if (model.shared_experts > 0) {
    map.find("shared_experts")->error("'shared_experts' needs 'shared_ffn' beside it");
  }
  model.activations = data_type(map, "activations");
  model.weights = data_type(map, "weights");
  model.total_parameters = map.number("total_parameters", non_negative, 0);
  read_gate(map, model);
  read_attention(map, model);
  if (map.good({"top_k", "experts"}) && model.top_k > model.experts) {
    map.find("top_k")->error(
        fmt::format("'top_k' is {}, more than the {} experts", model.top_k, model.experts));
  }
  doc.finish();
  return model;
}

}  // namespace

MoeModel read_moe_model(const std::string& path, const std::vector<Override>& overrides) {
  return read_model(*YamlDocument::from_file(path, overrides));
}

MoeModel parse_moe_model(const std::string& text, const std::string& name,
                         const std::vector<Override>& overrides) {
  return read_model(*YamlDocument::from_text(text, name, overrides));
}

}  // namespace moesim
