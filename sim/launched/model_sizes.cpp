// SPDX-License-Identifier: Apache-2.0
#include "sim/launched/model_sizes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <optional>

namespace moesim {
namespace {

bool has_dense_layers(const MoeModel& model) {
  return model.pattern.empty() && std::ssize(model.moe_layers) < model.layers;
}

std::optional<double> size_of_attention(const AttentionShape& shape, const std::string& key) {
  if (key == "attention.heads") return shape.heads;
  if (shape.kind == AttentionKind::gqa) {
    if (key == "attention.kv_heads") return shape.kv_heads;
    if (key == "attention.head_dim") return shape.head_dim;
  }
  if (shape.kind == AttentionKind::mla) {
    if (key == "attention.q_rank") return shape.q_rank;
    if (key == "attention.kv_rank") return shape.kv_rank;
    if (key == "attention.nope_dim") return shape.nope_dim;
    if (key == "attention.rope_dim") return shape.rope_dim;
    if (key == "attention.value_dim") return shape.value_dim;
  }
  return std::nullopt;
}

/// The size of a model by the key that a launch's size has; nothing if the model says it otherwise.
std::optional<double> size_of_model(const MoeModel& model, const std::string& key) {
  if (key == "layers") return model.layers;
  if (key == "hidden") return model.hidden;
  if (key == "experts") return model.experts;
  if (key == "top_k" && model.experts > 0) return model.top_k;
  if (key == "expert_ffn" && model.experts > 0) return model.expert_ffn;
  if (key == "dense_ffn" && has_dense_layers(model)) return model.dense_ffn;
  if (key == "shared_ffn" && model.experts > 0) return model.shared_experts * model.shared_ffn;
  if (key == "expert_matrices") return model.expert_matrices;
  if (key == "vocabulary" && model.vocabulary > 0) return model.vocabulary;
  if (key == "mtp" && model.vocabulary > 0) return model.mtp;
  if (!model.attention || !model.attention->shape) return std::nullopt;
  return size_of_attention(*model.attention->shape, key);
}

/// Embeddings have rows up to a multiple that tensor parallelism divides.
bool is_padded(double ours, const LaunchedSize& size) {
  return size.multiple > 0 && size.value == std::ceil(ours / size.multiple) * size.multiple;
}

bool differs(const std::optional<double>& ours, const LaunchedSize& size) {
  return ours && *ours != size.value && !is_padded(*ours, size);
}

/// Without experts the width of dense layers tells models apart.
bool tells_apart(const MoeModel& model, const LaunchedSize& size) {
  return size.tells_apart || (size.key == "dense_ffn" && model.experts == 0);
}

std::string layers_text(const std::vector<int>& layers) {
  const int stride = layers.size() > 1 ? layers[1] - layers[0] : 1;
  for (std::size_t i = 1; i < layers.size(); ++i) {
    if (layers[i] - layers[i - 1] != stride) return fmt::format("[{}]", fmt::join(layers, ", "));
  }
  const std::string apart = stride > 1 ? fmt::format(", stride: {}", stride) : "";
  return fmt::format("{{first: {}, count: {}{}}}", layers[0], layers.size(), apart);
}

bool layers_differ(const MoeModel& model, const Launched& launched) {
  return !launched.moe_layers.empty() && model.experts > 0 && model.pattern.empty() &&
         launched.moe_layers != model.moe_layers;
}

void set_size(const MoeModel& model, const LaunchedSize& size, Launched& launched) {
  const auto value = fmt::format("{:.0f}", size.value);
  if (size.key == "shared_ffn") {
    const bool any = size.value > 0;
    launched.change("model.shared_experts", any ? "1" : "0");
    launched.change("model.shared_ffn", any ? value : "null");
    if (!any && model.shared_gate) launched.change("model.shared_gate", "null");
  } else if (size.key == "expert_matrices" && model.experts == 0) {
    launched.change("model.dense_matrices", value);
  } else {
    launched.change("model." + size.key, value);
  }
}

/// Layers with experts, and the width of those without.
void set_layers(const MoeModel& model, Launched& launched) {
  launched.change("model.moe_layers", layers_text(launched.moe_layers));
  const bool all = std::ssize(launched.moe_layers) == model.layers;
  if (all && model.dense_ffn > 0) launched.change("model.dense_ffn", "null");
  if (all) return;
  for (const LaunchedSize& size : launched.sizes) {
    if (size.key == "dense_ffn") set_size(model, size, launched);
  }
}

}  // namespace

std::vector<std::string> size_differences(const MoeModel& model, const Launched& launched,
                                          bool telling_apart) {
  std::vector<std::string> all;
  bool says_experts = false;
  for (const LaunchedSize& size : launched.sizes) {
    const auto ours = size_of_model(model, size.key);
    says_experts = says_experts || size.key == "experts";
    if (tells_apart(model, size) == telling_apart && differs(ours, size)) {
      all.push_back(fmt::format("{} {:.0f} (the launch: {:.0f})", size.key, *ours, size.value));
    }
  }
  if (telling_apart && !says_experts && model.experts > 0) {
    all.push_back(fmt::format("experts {}", model.experts));
  }
  if (!telling_apart && layers_differ(model, launched)) {
    all.push_back(fmt::format("moe_layers {} (the launch: {})", layers_text(model.moe_layers),
                              layers_text(launched.moe_layers)));
  }
  return all;
}

double size_distance(const MoeModel& model, const Launched& launched) {
  double sum = 0;
  bool says_experts = false;
  for (const LaunchedSize& size : launched.sizes) {
    says_experts = says_experts || (size.key == "experts" && size.value > 0);
    const auto ours = size_of_model(model, size.key);
    if (ours && tells_apart(model, size)) sum += std::abs(std::log((1 + *ours) / (1 + size.value)));
  }
  constexpr double another_kind = 1000;
  return says_experts == (model.experts > 0) ? sum : sum + another_kind;
}

void take_sizes(const MoeModel& model, Launched& launched) {
  const auto different = size_differences(model, launched, false);
  if (different.empty()) return;
  for (const std::string& each : different) {
    launched.assume(fmt::format("model: changed to what the launch has: {}", each));
  }
  for (const LaunchedSize& size : launched.sizes) {
    const bool other = !tells_apart(model, size) && differs(size_of_model(model, size.key), size);
    if (other) set_size(model, size, launched);
  }
  if (layers_differ(model, launched)) set_layers(model, launched);
}

}  // namespace moesim
