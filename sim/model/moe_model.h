// SPDX-License-Identifier: Apache-2.0
// A transformer's architecture, with experts (models/moe/*.yaml) or without (models/dense/*.yaml):
// its attention and Mamba-2 mixers (Dao and Gu, arXiv:2405.21060) in detail, and the blocks that a
// pipeline stage may hold.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/yaml.h"

namespace moesim {

/// In the order in which a token meets them. A multi-token-prediction layer i is mtp, then
/// attention and moe (or dense_ffn) of the layer number model.layers + i, then head.
enum class BlockKind {
  embedding,
  attention,  // of a layer: norm, projections, scores, output
  mamba,      // of a layer, in place of attention: norm, projection, convolution, scan, output
  dense_ffn,  // of a layer: norm, both products
  moe,        // of a layer: norm, router, shared and routed experts
  mtp,        // joins a hidden state with the embedding of the next token
  head        // last norm, logits, loss
};
const char* name_of(BlockKind kind);

/// Keeps one head_dim x state matrix per head, so its work does not grow with the sequence. The
/// heads of a group share the vectors that write their states (B) and read them (C).
struct MambaShape {
  /// Tokens of a chunk, within which products take the place of the recurrence: MambaMixer's
  /// default in Megatron-Core.
  static constexpr std::int64_t chunk = 128;

  int heads = 0;
  int head_dim = 0;
  int groups = 0;
  int state = 0;  // of one row of a head
  int conv = 0;   // tokens that its causal convolution sees
  std::int64_t inner() const { return std::int64_t{1} * heads * head_dim; }
  std::int64_t shared() const { return std::int64_t{1} * groups * state; }  // B, and as wide C
  std::int64_t convolved() const { return inner() + 2 * shared(); }         // input, B and C
  /// Columns of the input projection: output gate, input, B, C, and a time step per head.
  std::int64_t projected() const { return inner() + convolved() + heads; }
  std::int64_t projections(std::int64_t hidden) const { return hidden * (projected() + inner()); }
  /// All that one mixer learns, without the norm before it: projections; the convolution with its
  /// bias; a decay, a skip and a time step per head; the norm of the output.
  std::int64_t parameters(std::int64_t hidden) const {
    return projections(hidden) + convolved() * (conv + 1) + std::int64_t{3} * heads + inner();
  }
  /// Multiplications of the scan for one token: of B and C in its chunk, one for all heads of a
  /// group; of their results with the inputs; into the state of the chunk, and out of that before.
  std::int64_t group_products() const { return chunk * shared(); }
  std::int64_t head_products() const { return (chunk + std::int64_t{2} * state) * inner(); }
};

enum class AttentionKind {
  gqa,  // grouped queries: kv_heads key-value heads serve the heads; as many of both: multi-head
  mla,  // multi-head latent attention (arXiv:2405.04434): queries and keys from compressed vectors
  compressed  // DeepSeek-V4: one vector is key and value of all heads; see KeyCompression
};

/// Narrow heads that score all keys before a query, which then attends to the `top_k` best
/// (DeepSeek Sparse Attention, arXiv:2512.02556).
struct KeyIndexer {
  int heads = 0, dim = 0, top_k = 0;
  std::int64_t width() const { return std::int64_t{1} * heads * dim; }
};

/// DeepSeek-V4's attention (inference/model.py of deepseek-ai/DeepSeek-V4-Flash): a query attends
/// to the keys of a window and, on layers of a ratio above 0, to keys that stand for so many tokens
/// each. Those of `indexed_ratio` are chosen by the indexer. The output is projected in groups of
/// heads, then joined.
struct KeyCompression {
  static constexpr int indexed_ratio = 4;
  std::vector<int> ratios;  // of each layer
  int output_groups = 0;
  int output_rank = 0;  // columns of a group's projection
  int ratio(int layer) const { return ratios[static_cast<std::size_t>(layer)]; }
  /// Columns of both projections of a compressor to keys of `width`: values and their weights; of
  /// blocks that overlap twice as many.
  static std::int64_t columns(int ratio, std::int64_t width) {
    return (ratio == indexed_ratio ? 4 : 2) * width;
  }
};

/// Gated delta net (arXiv:2412.06464): keeps one key_dim x value_dim state per value head, so its
/// work does not grow with the sequence.
struct LinearAttention {
  int key_heads = 0;
  int value_heads = 0;
  int key_dim = 0;    // of one head, also of a query
  int value_dim = 0;  // of one head
  int conv = 0;       // tokens that its causal convolution sees
  std::int64_t keys() const { return std::int64_t{1} * key_heads * key_dim; }
  std::int64_t values() const { return std::int64_t{1} * value_heads * value_dim; }
  /// Columns of the input projection: query, key, value, output gate, decay and rate.
  std::int64_t projected() const { return 2 * (keys() + values() + value_heads); }
  std::int64_t convolved() const { return 2 * keys() + values(); }
};

/// Layers full_every - 1, 2 full_every - 1, ... attend to all tokens before; the others within the
/// window, or by linear attention.
struct AttentionShape {
  AttentionKind kind = AttentionKind::gqa;
  int heads = 0;
  int kv_heads = 0;  // mla: as heads
  int head_dim = 0;  // gqa: of a query, a key and a value
  int q_rank = 0;    // mla: width of the compressed query; 0: projected in one piece
  int kv_rank = 0;   // mla: width of the compressed key and value
  int nope_dim = 0;  // mla: of a head's query and key, without position ...
  int rope_dim = 0;  // ... and with it; one key of this part serves all heads
  int value_dim = 0;
  bool qk_norm = false;      // gqa: norms of queries and keys; mla has its own
  bool bias = false;         // of the query, key and value projections
  bool output_bias = false;  // of the output projection
  bool output_gate = false;  // the query projection has as many columns again
  bool sinks = false;        // one learned score per head
  bool yarn = false;         // gqa: rotated queries and keys are scaled (arXiv 2309.00071, eq. 15)
  int full_every = 1;
  int window = 0;  // tokens that a window layer attends to, its own with them; 0: no windows
  std::optional<LinearAttention> linear;
  std::optional<KeyIndexer> indexer;  // of mla on all layers, of compressed on some
  KeyCompression compression;         // of compressed

  std::int64_t query_width() const;   // over all heads
  std::int64_t key_width() const;     // as scores read it, over all key heads
  std::int64_t value_width() const;   // over all key-value heads
  std::int64_t output_width() const;  // over all heads: rows of the output projection
  /// Over all heads: a query-key product and its value; 2 x tokens x keys x this is the flop.
  std::int64_t score_width() const { return query_width() + output_width(); }
  /// Weights of a full layer's projections, without biases and norms, indexer and compressor.
  std::int64_t projections(std::int64_t hidden) const;
  /// GPUs of a tensor group of `tp` that hold the same keys.
  int key_copies(int tp) const {
    return kind == AttentionKind::mla ? tp : std::max(1, tp / kv_heads);
  }
  bool compresses() const { return kind == AttentionKind::compressed; }
  /// Tokens that a key stands for besides those of the window; 0: there are none.
  int ratio_of(int layer) const { return compresses() ? compression.ratio(layer) : 1; }
  bool has_indexer(int layer) const {
    return indexer && (!compresses() || ratio_of(layer) == KeyCompression::indexed_ratio);
  }
  /// Weights of this layer's indexer, and of its compressor.
  std::int64_t indexer_weights(int layer, std::int64_t hidden) const;
  std::int64_t compressor_weights(int layer, std::int64_t hidden) const;

  bool is_full(int layer) const { return (layer + 1) % full_every == 0; }
  bool is_linear(int layer) const { return linear && !is_full(layer); }
  /// Mean keys per query on this layer, if a full layer has `attended` under the causal mask of a
  /// sequence of 2 attended - 1 tokens: W - W (W - 1) / (2 sequence) within a window W, or of W
  /// chosen keys.
  double keys_of(int layer, double attended) const;
  /// Keys that the layer's indexer scores.
  double indexed_keys(int layer, double attended) const { return attended / ratio_of(layer); }
};

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
