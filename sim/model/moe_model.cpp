// SPDX-License-Identifier: Apache-2.0
#include "sim/model/moe_model.h"

#include <algorithm>
#include <array>
#include <stdexcept>

namespace moesim {

std::int64_t AttentionShape::query_width() const {
  return std::int64_t{1} * heads * (kind == AttentionKind::mla ? nope_dim + rope_dim : head_dim);
}
std::int64_t AttentionShape::key_width() const {
  return kind == AttentionKind::mla ? query_width() : std::int64_t{1} * kv_heads * head_dim;
}
std::int64_t AttentionShape::value_width() const {
  return kind == AttentionKind::mla ? output_width() : std::int64_t{1} * kv_heads * head_dim;
}
std::int64_t AttentionShape::output_width() const {
  return std::int64_t{1} * heads * (kind == AttentionKind::mla ? value_dim : head_dim);
}

std::int64_t AttentionShape::projections(std::int64_t hidden) const {
  const std::int64_t output = output_width() * hidden;
  if (kind == AttentionKind::gqa) {
    const std::int64_t queries = query_width() * (output_gate ? 2 : 1);
    return hidden * (queries + key_width() + value_width()) + output;
  }
  const std::int64_t query =
      q_rank == 0 ? hidden * query_width() : q_rank * (hidden + query_width());
  if (compresses()) {
    const std::int64_t groups = std::int64_t{compression.output_rank} * output_width();
    const std::int64_t joined =
        std::int64_t{1} * compression.output_rank * compression.output_groups * hidden;
    return query + hidden * head_dim + groups + joined;
  }
  const std::int64_t up = std::int64_t{1} * heads * (nope_dim + value_dim);
  return query + hidden * (kv_rank + rope_dim) + kv_rank * up + output;
}

std::int64_t AttentionShape::indexer_weights(int layer, std::int64_t hidden) const {
  if (!has_indexer(layer)) return 0;
  const std::int64_t keys =
      compresses() ? KeyCompression::columns(ratio_of(layer), indexer->dim) : indexer->dim;
  return q_rank * indexer->width() + hidden * (indexer->heads + keys);
}

std::int64_t AttentionShape::compressor_weights(int layer, std::int64_t hidden) const {
  if (!compresses() || ratio_of(layer) == 0) return 0;
  return hidden * KeyCompression::columns(ratio_of(layer), head_dim);
}

namespace {

/// The mean of min(i, most) for i = 1 ... 2 mean - 1; most 0: of all.
double at_most(double most, double mean) {
  const double last = 2 * mean - 1;
  return most == 0 || most >= last ? mean : most - most * (most - 1) / (2 * last);
}

}  // namespace

double AttentionShape::keys_of(int layer, double attended) const {
  const double chosen = has_indexer(layer) ? indexer->top_k : 0;
  if (!compresses()) return at_most(is_full(layer) ? chosen : window, attended);
  const int ratio = ratio_of(layer);
  return at_most(window, attended) + (ratio == 0 ? 0 : at_most(chosen, attended / ratio));
}

int size_of(DataType type) {
  switch (type) {
    case DataType::fp8:
      return 1;
    case DataType::bf16:
    case DataType::fp16:
      return 2;
    case DataType::fp32:
      return 4;
    case DataType::fp4:
    case DataType::mxfp4:
    case DataType::int4:
    case DataType::mxfp4_mxfp8:
      break;
  }
  throw std::logic_error("elements of four bits have no whole bytes");
}

namespace {

/// Of scales.
bool has_a_byte_per_32(DataType type) {
  return type == DataType::mxfp4 || type == DataType::mxfp4_mxfp8;
}

/// Of scales: fp4 one for 16 elements, int4 a wider one for 32.
bool has_two_bytes_per_32(DataType type) { return type == DataType::fp4 || type == DataType::int4; }

}  // namespace

double bytes_per_element(DataType type) {
  if (has_a_byte_per_32(type)) return 0.5 + 1.0 / 32;
  return has_two_bytes_per_32(type) ? 0.5 + 1.0 / 16 : size_of(type);
}

Bytes bytes_of(std::int64_t elements, DataType type) {
  if (has_a_byte_per_32(type)) return Bytes((elements * 17 + 31) / 32);
  return Bytes(has_two_bytes_per_32(type) ? (elements * 9 + 15) / 16 : elements * size_of(type));
}

const std::vector<std::string>& data_type_names() {
  static const std::vector<std::string> names = {"fp8", "bf16",  "fp16", "fp32",
                                                 "fp4", "mxfp4", "int4", "mxfp4-mxfp8"};
  return names;
}

const char* name_of(DataType type) {
  return data_type_names()[static_cast<std::size_t>(type)].c_str();
}

const char* name_of(BlockKind kind) {
  static constexpr std::array names = {"embedding", "attention", "mamba", "dense-ffn",
                                       "moe",       "mtp",       "head"};
  return names.at(static_cast<std::size_t>(kind));
}

Bytes MoeModel::row_bytes() const { return Bytes(routed_width() * size_of(activations)); }
std::int64_t MoeModel::mixing_parameters() const {
  if (residual_streams == 1) return 0;
  // Weights of each stream before and behind the block, and of each stream in each.
  return std::int64_t{residual_streams} * hidden * residual_streams * (residual_streams + 2);
}

std::int64_t MoeModel::latent_parameters() const { return std::int64_t{2} * hidden * latent; }
std::int64_t MoeModel::expert_parameters() const {
  return std::int64_t{1} * expert_matrices * routed_width() * expert_ffn;
}
bool MoeModel::is_moe_layer(int number) const {
  if (!pattern.empty() && number >= layers) return true;
  return std::ranges::binary_search(moe_layers, std::min(number, layers - 1));
}

std::string MoeModel::missing_of_whole() const {
  std::string missing;
  const auto add = [&](bool is_missing, const std::string& key) {
    if (is_missing) missing += (missing.empty() ? "'" : ", '") + key + "'";
  };
  add(vocabulary == 0, "vocabulary");
  const bool attends = pattern.empty() || std::ranges::count(pattern, BlockKind::attention) > 0;
  add(attends && (!attention || !attention->shape), "attention.heads");
  const bool hybrid = !pattern.empty();  // its reader asks for what its layers need
  add(!hybrid && dense_ffn == 0 && moe_layers.size() < static_cast<std::size_t>(layers),
      "dense_ffn");
  return missing;
}

}  // namespace moesim
