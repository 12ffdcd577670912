// SPDX-License-Identifier: Apache-2.0
// A transformer's architecture, with experts (models/moe/*.yaml) or without (models/dense/*.yaml).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/yaml.h"
#include "sim/model/attention_shape.h"
#include "sim/model/block_kind.h"
#include "sim/model/mamba_shape.h"

namespace moesim {

/// The last three are formats of stored weights (is_stored_only): mxfp4 (OCP MX: 4 bits, a scale of
/// one byte per 32 elements), int4 (compressed-tensors: the same with scales of two bytes), and
/// mxfp4 that rows in mxfp8 are multiplied by.
enum class DataType { fp8, bf16, fp16, fp32, fp4, mxfp4, int4, mxfp4_mxfp8 };
const std::vector<std::string>& data_type_names();  // by number
/// Of products, narrow ones first.
inline constexpr DataType product_types[] = {DataType::fp4, DataType::fp8, DataType::bf16,
                                             DataType::fp16, DataType::fp32};
/// Of weights of routed experts, and of nothing else.
inline constexpr DataType stored_types[] = {DataType::mxfp4, DataType::int4, DataType::mxfp4_mxfp8};
constexpr bool is_stored_only(DataType type) { return type >= DataType::mxfp4; }
/// Of the rows that are multiplied by weights of a type, and of the product: by mxfp4 and int4,
/// which kernels turn into bf16 on the way, it is that.
constexpr DataType type_of_rows(DataType weights) {
  if (weights == DataType::mxfp4_mxfp8) return DataType::fp8;
  return is_stored_only(weights) ? DataType::bf16 : weights;
}
/// Bytes per element. It throws for those of four bits: two share a byte, and blocks have scales.
int size_of(DataType type);
/// The same of all types, with shares of scales: fp4 (NVFP4) has one of a byte per 16 elements.
double bytes_per_element(DataType type);
/// Rounded up to a whole byte.
Bytes bytes_of(std::int64_t elements, DataType type);
/// Whether products round what they multiply to it first, from the type of activations.
constexpr bool is_quantized(DataType type) {
  const DataType rows = type_of_rows(type);
  return rows == DataType::fp8 || rows == DataType::fp4;
}
const char* name_of(DataType type);

enum class GateScore { softmax, sigmoid };

/// The attention of one transformer layer. Without its shape it tells what hides transfers, not
/// what a whole model takes.
struct Attention {
  std::int64_t parameters = 0;   // weights of all its projections
  std::int64_t score_width = 0;  // over all heads: widths of query-key and value
  std::optional<AttentionShape> shape = {};
};

struct MoeModel {
  std::string name;
  std::string description;
  std::string source;
  int hidden = 0;               // width of a token vector
  int latent = 0;               // width of the rows of routed experts; 0: hidden, as usual
  int layers = 0;               // transformer layers in all
  std::vector<int> moe_layers;  // 0-based numbers of the MoE layers, ascending; none: a dense model
  std::vector<BlockKind>
      pattern;      // hybrids: the one block of each layer; empty: a mixer and an FFN
  int experts = 0;  // routed experts per MoE layer
  int top_k = 0;
  int expert_ffn = 0;       // intermediate width of one routed expert
  int expert_matrices = 3;  // 3: gated (gate, up, down), 2: plain (up, down); dense layers too
  int shared_experts = 0;
  int shared_ffn = 0;        // total intermediate width of one shared expert
  bool shared_gate = false;  // one learned weight per token for the shared experts
  int hash_layers = 0;       // the first layers whose experts follow from token ids
  bool router_bias = false;  // one number per expert
  bool expert_bias = false;  // of both products of a routed expert
  DataType activations = DataType::bf16;
  DataType weights = DataType::bf16;  // stored_types: of routed experts, of nothing else
  /// The format of the published checkpoint, that engines serve unless told otherwise.
  std::optional<DataType> checkpoint = {};
  /// Of other weights, if those of routed experts have a stored type: else that of activations.
  std::optional<DataType> checkpoint_others = {};
  GateScore gate_score = GateScore::softmax;
  int gate_groups = 1;       // group-limited gate: expert groups ...
  int gate_kept_groups = 1;  // ... a token may use this many of them
  std::optional<Attention> attention;
  std::optional<MambaShape> mamba;
  /// Rows that a token has between blocks (manifold-constrained hyper-connections,
  /// arXiv:2512.24880): a block reads one that is mixed from them, and they are mixed with its sum.
  int residual_streams = 1;
  int vocabulary = 0;            // 0: the file describes no whole model
  bool tied_embeddings = false;  // the head multiplies by the embedding's weights
  int dense_ffn = 0;             // intermediate width of the layers without experts
  int mtp = 0;                   // multi-token-prediction layers behind the last one
  double total_parameters = 0;   // published total without these; 0 when unknown
  std::int64_t longest = 0;      // tokens of a sequence that its config allows; 0: it does not say

  /// Width of the rows that routed experts take. A LatentMoE layer (arXiv 2601.18089) projects a
  /// token down to it before the dispatch, and the sum of its experts up again after the combine.
  std::int64_t routed_width() const { return latent > 0 ? latent : hidden; }
  std::int64_t latent_parameters() const;  // of both projections of a layer; 0 without a latent
  std::int64_t mixing_parameters() const;  // of the streams around a block; 0 if there is one
  /// Of weights that are not those of routed experts.
  DataType other_weights() const {
    return is_stored_only(weights) ? checkpoint_others.value_or(activations) : weights;
  }
  Bytes row_bytes() const;                 // one routed row: routed_width x size_of(activations)
  std::int64_t expert_parameters() const;  // matrices x routed_width x expert_ffn
  bool is_moe_layer(int number) const;     // a multi-token-prediction layer is as the last layer,
                                           // in a hybrid attention and experts
  /// What a whole model's file would say and this one does not, empty when it is whole.
  std::string missing_of_whole() const;
};

/// Reads models/moe/*.yaml; throws Error with all its mistakes.
MoeModel read_moe_model(const std::string& path, const std::vector<Override>& overrides = {});
MoeModel parse_moe_model(const std::string& text, const std::string& name,
                         const std::vector<Override>& overrides = {});

/// Reads models/dense/*.yaml: a model without experts.
MoeModel read_dense_model(const std::string& path, const std::vector<Override>& overrides = {});
MoeModel parse_dense_model(const std::string& text, const std::string& name,
                           const std::vector<Override>& overrides = {});

}  // namespace moesim
