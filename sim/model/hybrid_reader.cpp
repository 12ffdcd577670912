// SPDX-License-Identifier: Apache-2.0
#include "sim/model/hybrid_reader.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/model/attention_reader.h"

namespace moesim {
namespace {

/// Symbols of megatron/core/models/hybrid/hybrid_layer_allocation.py that have a form here.
std::optional<BlockKind> block_of(char letter) {
  switch (letter) {
    case 'M':
      return BlockKind::mamba;
    case '*':
      return BlockKind::attention;
    case 'E':
      return BlockKind::moe;
    case '-':
      return BlockKind::dense_ffn;
    default:
      return std::nullopt;
  }
}

void read_letters(const YamlValue& value, MoeModel& model) {
  const std::string letters = value.string();
  for (std::size_t i = 0; i < letters.size(); ++i) {
    const auto block = block_of(letters[i]);
    if (!block) {
      return value.error(fmt::format("'pattern' has '{}' at layer {}", letters[i], i),
                         "M: Mamba-2, *: attention, E: experts, -: dense FFN");
    }
    if (block == BlockKind::moe) model.moe_layers.push_back(static_cast<int>(i));
    model.pattern.push_back(*block);
  }
  if (model.moe_layers.empty()) value.error("'pattern' has no layer 'E'", "E: experts");
}

MambaShape read_mamba(const YamlValue& value) {
  const YamlMap map = value.map();
  const auto size = [&](const std::string& key) {
    return static_cast<int>(map.integer(key, possible_size));
  };
  const MambaShape shape{size("heads"), size("head_dim"), size("groups"), size("state"),
                         size("conv")};
  if (map.good({"heads", "groups"}) && shape.heads % shape.groups != 0) {
    map.find("groups")->error(fmt::format("'mamba.groups' is {}, which does not divide {} heads",
                                          shape.groups, shape.heads));
  }
  return shape;
}

/// What the layers of a pattern need with it, and what they leave without effect.
void check_pattern(const YamlMap& map, const YamlValue& pattern, const MoeModel& model) {
  const auto has = [&](BlockKind kind) {
    return std::ranges::find(model.pattern, kind) != model.pattern.end();
  };
  if (has(BlockKind::mamba) && !map.find("mamba")) {
    pattern.error("'pattern' has layers 'M', which need 'mamba' next to it",
                  "mamba: {heads: 64, head_dim: 64, groups: 8, state: 128, conv: 4}");
  } else if (!has(BlockKind::mamba) && map.find("mamba")) {
    map.find("mamba")->error("'mamba' has no effect: 'pattern' has no layer 'M'", "take it away");
  }
  if (map.find("mtp") && !has(BlockKind::attention)) {
    map.find("mtp")->error("'mtp' needs a layer '*' in 'pattern'",
                           "multi-token-prediction layers of hybrids are attention and experts");
  }
  if (has(BlockKind::dense_ffn) && !map.find("dense_ffn")) {
    pattern.error("'pattern' has layers '-', which need 'dense_ffn' next to it");
  } else if (!has(BlockKind::dense_ffn) && map.find("dense_ffn")) {
    map.find("dense_ffn")
        ->error("'dense_ffn' has no effect: 'pattern' has no layer '-'", "take it away");
  }
  if (map.good({"layers"}) && std::ssize(model.pattern) != model.layers) {
    pattern.error(fmt::format("'pattern' has {} layers, but 'layers' is {}", model.pattern.size(),
                              model.layers),
                  "one letter per layer");
  }
}

}  // namespace

void read_pattern(const YamlMap& map, MoeModel& model) {
  const auto pattern = map.find("pattern");
  const auto mamba = map.find("mamba");
  if (!pattern) {
    if (mamba) mamba->error("'mamba' needs 'pattern' next to it", "pattern: 'MEM*E', say");
    return;
  }
  if (const auto other = map.find("moe_layers")) {
    other->error("'moe_layers' and 'pattern' exclude each other", "take it away");
  }
  read_letters(*pattern, model);
  if (mamba) model.mamba = read_mamba(*mamba);
  if (map.good({"pattern"})) check_pattern(map, *pattern, model);
}

}  // namespace moesim
