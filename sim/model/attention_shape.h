// SPDX-License-Identifier: Apache-2.0
// The attention of a model in detail: what its projections, scores and caches are made of.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

namespace moesim {

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

}  // namespace moesim
