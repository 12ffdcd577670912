// SPDX-License-Identifier: Apache-2.0
#include "sim/model/attention_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

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

int size_in(const YamlMap& map, const std::string& key) {
  return static_cast<int>(map.integer(key, possible_size));
}

void read_gqa(const YamlMap& map, AttentionShape& shape) {
  shape.kv_heads = static_cast<int>(map.integer("kv_heads", possible_size, shape.heads));
  shape.head_dim = size_in(map, "head_dim");
  shape.qk_norm = map.boolean("qk_norm", false);
  shape.output_gate = map.boolean("output_gate", false);
  shape.yarn = map.boolean("yarn", false);
  if (map.good({"heads", "kv_heads"}) && shape.heads % shape.kv_heads != 0) {
    map.find("kv_heads")
        ->error(fmt::format("'kv_heads' is {}, which does not divide {} heads", shape.kv_heads,
                            shape.heads));
  }
}

void read_mla(const YamlMap& map, AttentionShape& shape) {
  shape.kv_heads = shape.heads;
  shape.q_rank = static_cast<int>(map.integer("q_rank", {0, possible_size.max}, 0));
  shape.kv_rank = size_in(map, "kv_rank");
  shape.nope_dim = size_in(map, "nope_dim");
  shape.rope_dim = size_in(map, "rope_dim");
  shape.value_dim = size_in(map, "value_dim");
}

void read_compressed(const YamlMap& map, AttentionShape& shape) {
  shape.kv_heads = 1;
  shape.head_dim = size_in(map, "head_dim");
  shape.rope_dim = size_in(map, "rope_dim");
  shape.q_rank = size_in(map, "q_rank");
  shape.window = size_in(map, "window");
  KeyCompression compression;
  compression.output_groups = size_in(map, "output_groups");
  compression.output_rank = size_in(map, "output_rank");
  if (const auto ratios = map.find("ratios")) {
    for (const YamlValue& each : ratios->list()) {
      compression.ratios.push_back(static_cast<int>(each.integer({0, possible_size.max})));
    }
  } else {
    map.value().error("'kind: compressed' needs 'ratios' next to it",
                      "one number per layer: tokens that a compressed key stands for, 0 for none");
  }
  if (map.good({"heads", "output_groups"}) && shape.heads % compression.output_groups != 0) {
    map.find("output_groups")
        ->error(fmt::format("'output_groups' is {}, which does not divide {} heads",
                            compression.output_groups, shape.heads));
  }
  shape.compression = std::move(compression);
}

KeyIndexer read_indexer(const YamlMap& map) {
  return {size_in(map, "heads"), size_in(map, "dim"), size_in(map, "top_k")};
}

LinearAttention read_linear(const YamlMap& map) {
  return {size_in(map, "key_heads"), size_in(map, "value_heads"), size_in(map, "key_dim"),
          size_in(map, "value_dim"), size_in(map, "conv")};
}

/// Which layers have full attention, and what the others have.
void read_other_layers(const YamlMap& map, AttentionShape& shape) {
  if (const auto window = map.find("window")) {
    shape.window = static_cast<int>(window->integer(possible_size));
  }
  if (const auto linear = map.find("linear")) shape.linear = read_linear(linear->map());
  if (shape.window > 0 && shape.linear) {
    map.find("linear")->error("'linear' and 'window' exclude each other");
  }
  const auto every = map.find("full_every");
  if (every) shape.full_every = static_cast<int>(every->integer({2, possible_size.max}));
  if (every && shape.window == 0 && !shape.linear) {
    every->error("'full_every' has no effect: no layer has a 'window' or 'linear' attention",
                 "take it away");
  } else if (!every && (shape.window > 0 || shape.linear)) {
    map.value().error("'window' and 'linear' need 'full_every' next to them",
                      "full_every: 2 gives every second layer full attention");
  }
}

/// A file may say both: the shape, and what it amounts to.
void check_amount(const YamlMap& map, const std::string& key, std::int64_t derived) {
  const auto value = map.find(key);
  if (!value) return;
  const std::int64_t stated = value->integer({1, 1e12});
  if (map.good({key, "heads"}) && stated != derived) {
    value->error(fmt::format("'{}' is {}, but the heads amount to {}", key, stated, derived),
                 "take it away: it follows from the heads");
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

Attention read_attention(const YamlMap& map, std::int64_t hidden) {
  if (map.find("parameters") && !map.find("heads")) {
    return {map.integer("parameters", {1, std::int64_t{1} << 40}),
            map.integer("score_width", {1, std::int64_t{1} << 30})};
  }
  AttentionShape shape;
  shape.kind = static_cast<AttentionKind>(map.choice("kind", {"gqa", "mla", "compressed"}, 0));
  shape.heads = size_in(map, "heads");
  if (shape.kind == AttentionKind::gqa) {
    read_gqa(map, shape);
  } else if (shape.kind == AttentionKind::mla) {
    read_mla(map, shape);
  } else {
    read_compressed(map, shape);
  }
  if (const auto indexer = map.find("indexer")) {
    shape.indexer = read_indexer(indexer->map());
    if (map.good({"kind"}) && shape.q_rank == 0) {
      indexer->error("'indexer' without 'q_rank'",
                     "its queries come from the compressed ones: kind: mla or compressed");
    }
  }
  shape.bias = map.boolean("bias", false);
  shape.output_bias = map.boolean("output_bias", false);
  shape.sinks = map.boolean("sinks", false);
  if (shape.kind != AttentionKind::compressed) read_other_layers(map, shape);
  const Attention attention{shape.projections(hidden), shape.score_width(), shape};
  check_amount(map, "parameters", attention.parameters);
  check_amount(map, "score_width", attention.score_width);
  return attention;
}

}  // namespace moesim
