// SPDX-License-Identifier: Apache-2.0
// Reads models/moe/*.yaml and models/dense/*.yaml.
#include <fmt/format.h>

#include <algorithm>

#include "sim/base/files.h"
#include "sim/base/most.h"
#include "sim/model/attention_reader.h"
#include "sim/model/gemm_types.h"
#include "sim/model/hf_config.h"
#include "sim/model/moe_model.h"

namespace moesim {
namespace {

const std::vector<std::string> data_types = {"fp8", "bf16", "fp16", "fp32"};

DataType data_type(const YamlMap& map, const std::string& key) {
  return static_cast<DataType>(map.choice(key, data_types));
}

/// Layers without a rhythm, each by its number.
std::vector<int> listed_layers(const YamlValue& value, int layers) {
  std::vector<int> result;
  for (const YamlValue& item : value.list()) {
    const auto number = static_cast<int>(item.integer({0, 1 << 20}));
    if (number >= layers) {
      item.error(fmt::format("'moe_layers' names layer {}, but 'layers' is {}", number, layers),
                 "layer numbers count from 0");
    } else if (!result.empty() && number <= result.back()) {
      item.error("'moe_layers' does not ascend", "each layer once, in order");
    }
    result.push_back(number);
  }
  if (result.empty()) value.error("'moe_layers' names no layer");
  return result;
}

std::vector<int> moe_layers(const YamlMap& map, int layers) {
  std::vector<int> result;
  const auto value = map.get("moe_layers");
  if (!value) return result;
  if (value->is_list()) return listed_layers(*value, layers);
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

/// What experts leave open of a whole model.
void check_ratios(const YamlMap& attention, const MoeModel& model) {
  if (!model.attention->shape || !model.attention->shape->compresses()) return;
  const auto stated = std::ssize(model.attention->shape->compression.ratios);
  const auto ratios = attention.find("ratios");
  if (!ratios || !attention.good({"ratios"}) || stated >= model.layers) return;
  ratios->error(fmt::format("'ratios' has {} numbers for {} layers", stated, model.layers),
                "one for each layer");
}

void read_whole(const YamlMap& map, MoeModel& model) {
  model.vocabulary = static_cast<int>(map.integer("vocabulary", {1, 1 << 30}, 0));
  model.tied_embeddings = map.boolean("tied_embeddings", false);
  model.mtp = static_cast<int>(map.integer("mtp", {0, 16}, 0));
  if (const auto attention = map.find("attention")) {
    model.attention = read_attention(attention->map(), model.hidden);
    check_ratios(attention->map(), model);
  }
  model.residual_streams = static_cast<int>(map.integer("residual_streams", {1, 64}, 1));
}

void read_shared_experts(const YamlMap& map, MoeModel& model) {
  model.shared_experts = static_cast<int>(map.integer("shared_experts", {0, 1024}, 0));
  if (const auto shared = map.find("shared_ffn")) {
    model.shared_ffn = static_cast<int>(shared->integer(possible_size));
    if (map.good({"shared_experts"}) && model.shared_experts == 0) {
      shared->error("'shared_ffn' has no effect: 'shared_experts' is 0", "take it away");
    }
  } else if (model.shared_experts > 0) {
    map.find("shared_experts")->error("'shared_experts' needs 'shared_ffn' next to it");
  }
  model.shared_gate = map.boolean("shared_gate", false);
  if (map.good({"shared_experts"}) && model.shared_gate && model.shared_experts == 0) {
    map.find("shared_gate")
        ->error("'shared_gate' has no effect: 'shared_experts' is 0", "take it away");
  }
}

void read_experts(const YamlMap& map, MoeModel& model) {
  read_pattern(map, model);
  if (!map.find("pattern")) model.moe_layers = moe_layers(map, model.layers);
  model.experts = static_cast<int>(map.integer("experts", {1, max_experts}));
  model.top_k = static_cast<int>(map.integer("top_k", {1, 32}));
  model.expert_ffn = static_cast<int>(map.integer("expert_ffn", possible_size));
  model.expert_matrices = static_cast<int>(map.integer("expert_matrices", {2, 3}));
  if (const auto latent = map.find("latent")) {
    model.latent = static_cast<int>(latent->integer(possible_size));
    if (map.good({"hidden", "latent"}) && model.latent >= model.hidden) {
      latent->error(
          fmt::format("'latent' is {}, not narrower than 'hidden', {}", model.latent, model.hidden),
          "leave it out: experts then take whole rows");
    }
  }
  if (const auto hashed = map.find("hash_layers")) {
    model.hash_layers = static_cast<int>(hashed->integer({0, 1 << 20}));
    if (map.good({"layers", "hash_layers"}) && model.hash_layers > model.layers) {
      hashed->error(
          fmt::format("'hash_layers' is {}, but 'layers' is {}", model.hash_layers, model.layers),
          "the first layers that are routed by token ids");
    }
  }
  model.router_bias = map.boolean("router_bias", false);
  model.expert_bias = map.boolean("expert_bias", false);
  read_shared_experts(map, model);
  if (const auto dense = map.find("dense_ffn")) {
    model.dense_ffn = static_cast<int>(dense->integer(possible_size));
    if (model.pattern.empty() && map.good({"layers", "moe_layers"}) &&
        model.moe_layers.size() == static_cast<std::size_t>(model.layers)) {
      dense->error("'dense_ffn' has no effect: every layer has experts", "take it away");
    }
  }
  read_gate(map, model);
  if (map.good({"top_k", "experts"}) && model.top_k > model.experts) {
    map.find("top_k")->error(
        fmt::format("'top_k' is {}, more than the {} experts", model.top_k, model.experts));
  }
}

/// `dense_matrices` says that no layer has experts.
void read_dense_layers(const YamlMap& map, MoeModel& model) {
  static const std::vector<std::string> of_experts = {
      "experts",         "top_k",          "moe_layers", "pattern", "expert_ffn",
      "expert_matrices", "shared_experts", "shared_ffn", "gate",    "latent"};
  for (const std::string& key : map.keys()) {
    if (std::ranges::find(of_experts, key) == of_experts.end()) continue;
    map.find(key)->error(
        fmt::format("'{}' in a dense model: with 'dense_matrices' no layer has experts", key),
        "leave one of them out; layers without experts next to others have 'dense_ffn'");
  }
  model.dense_ffn = static_cast<int>(map.integer("dense_ffn", possible_size));
  model.expert_matrices = static_cast<int>(map.integer("dense_matrices", {2, 3}));
}

MoeModel read_model(YamlDocument& doc, void (*read_layers)(const YamlMap&, MoeModel&)) {
  const YamlMap map = doc.root().map();
  MoeModel model;
  model.name = map.string("name");
  model.description = map.string("description", "");
  model.source = map.string("source");
  model.hidden = static_cast<int>(map.integer("hidden", possible_size));
  model.layers = static_cast<int>(map.integer("layers", possible_size));
  map.find("dense_matrices") ? read_dense_layers(map, model) : read_layers(map, model);
  model.activations = data_type(map, "activations");
  model.weights = static_cast<DataType>(map.choice("weights", data_type_names()));
  if (map.find("checkpoint")) {
    model.checkpoint = type_of_precision(map.choice("checkpoint", serving_precision_names));
    if (const auto others = map.find("checkpoint_others")) {
      if (!is_stored_only(*model.checkpoint)) {
        others->error(
            "'checkpoint_others' needs a 'checkpoint' in which routed experts differ from other "
            "parts",
            "leave it out, or a 'checkpoint' of mxfp4, mxfp4-mxfp8 or int4");
      }
      model.checkpoint_others = data_type(map, "checkpoint_others");
    }
  }
  model.total_parameters = map.number("total_parameters", non_negative, 0);
  model.longest = map.integer("longest", {1, 1 << 30}, 0);
  read_whole(map, model);
  doc.finish();
  return model;
}

}  // namespace

MoeModel read_moe_model(const std::string& path, const std::vector<Override>& overrides) {
  if (path.ends_with(".json")) {
    const std::string text = read_file(path);
    if (is_hf_config(path, text)) {
      const std::string model = model_text_of_hf_config(path, text);
      try {
        return parse_moe_model(model, path, overrides);
      } catch (const Error& e) {
        throw error_of_hf_config(e, path, text);
      }
    }
  }
  return read_model(*YamlDocument::from_file(path, overrides), read_experts);
}

MoeModel parse_moe_model(const std::string& text, const std::string& name,
                         const std::vector<Override>& overrides) {
  return read_model(*YamlDocument::from_text(text, name, overrides), read_experts);
}

MoeModel read_dense_model(const std::string& path, const std::vector<Override>& overrides) {
  return read_model(*YamlDocument::from_file(path, overrides), read_dense_layers);
}

MoeModel parse_dense_model(const std::string& text, const std::string& name,
                           const std::vector<Override>& overrides) {
  return read_model(*YamlDocument::from_text(text, name, overrides), read_dense_layers);
}

}  // namespace moesim
