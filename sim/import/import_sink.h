// SPDX-License-Identifier: Apache-2.0
// Takes what importers hand over pass by pass and writes steps: memory holds one pass and one step.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "sim/import/importer.h"
#include "sim/import/layer_choice.h"
#include "sim/import/routed_pass.h"
#include "sim/trace/routing_trace.h"
#include "sim/trace/writer.h"

namespace moesim {

class PendingStep : public TraceStep {
 public:
  void begin(std::int64_t number, const TraceInfo& info);
  bool empty() const { return lengths_.empty(); }

  /// Room for more ids of a layer, in the width of their ids; the caller fills it.
  std::uint8_t* grow(int layer, std::int64_t ids);
  std::vector<float>& weights(int layer) { return weights_[static_cast<std::size_t>(layer)]; }
  /// Their last sequence; `source_rank` is -1 if none is known.
  void add_sequence(std::int32_t tokens, int source_rank);

  std::int64_t number() const override { return number_; }
  std::int64_t tokens() const override { return tokens_; }
  IdRows ids(int layer) const override;
  std::span<const std::int32_t> sequence_lengths() const override { return lengths_; }
  bool has_weights() const override { return !weights_.front().empty(); }
  float weight(int layer, std::int64_t token, int k) const override {
    return weights_[layer][token * top_k_ + k];
  }
  bool has_source_ranks() const override { return ranked_ && !empty(); }
  int source_rank(std::int64_t token) const override { return ranks_[token]; }

 private:
  std::int64_t number_ = 0, tokens_ = 0;
  int top_k_ = 0, width_ = 1;
  std::vector<std::vector<std::uint8_t>> ids_;
  std::vector<std::vector<float>> weights_;
  std::vector<std::int32_t> lengths_, ranks_;
  bool ranked_ = true;  // the ranks of all tokens are known
};

/// Requests fill steps of so many tokens: 61 MB of ids for 58 layers of 8 choices.
constexpr std::int32_t default_step_tokens = 131'072;

/// A reason to drop rows: the layers behind the model's that predict further tokens.
inline constexpr const char* mtp_rows = "of multi-token prediction";

class ImportSink {
 public:
  ImportSink(const ImportOptions& options, TraceWriter& writer, TraceProgress progress);

  const ImportOptions& options() const { return options_; }
  /// Experts per layer as the flags say. Throws Error if they do not.
  int experts() const;
  /// Experts per layer as the files say. Throws Error if flags say otherwise.
  void says_experts(int experts, const std::string& where);

  /// Choices per token as the files say. Throws Error if flags say otherwise.
  void says_top_k(std::int64_t top_k, const std::string& where);

  /// Adds the tokens of a pass, less padding, dense layers and warm-up passes. Throws Error for ids
  /// that are not sound choices.
  void add(const RoutedPass& pass);
  /// The same of a training microbatch as Megatron flattens it: the tokens of its sequences
  /// alternate. How many there are the flags say, or its choices.
  void add_microbatch(const RoutedPass& pass);
  /// Rows (token x layer) that the importer leaves out itself, by reason.
  void drop(const std::string& reason, std::int64_t rows) { dropped_[reason] += rows; }
  /// Counts that no top-k of the model explains: loads are all that is kept of them.
  void takes_choices_for_tokens() { options_.top_k = 1; }
  /// The rows are dealt from counts: which experts share a token means nothing.
  void keep_only_counts() { only_counts_ = true; }
  void warn(Diagnostic warning) { warnings_.push_back(std::move(warning)); }
  /// Whether a warning had this hint.
  bool warned_of(const std::string& hint) const {
    return std::ranges::any_of(warnings_, [&](const auto& w) { return w.hint == hint; });
  }
  /// The share of the inputs that is read.
  void progress(double done) const;

  /// Writes what is left and publishes the trace.
  Imported finish(const std::string& kind, const std::string& input_hashes);

 private:
  std::int64_t step_tokens(const RoutedPass& pass) const;
  void begin(const RoutedPass& pass);
  void add_phase(Phase phase);
  void check_shape(const RoutedPass& pass) const;
  bool is_padding(const RoutedPass& pass, std::int64_t token) const;
  bool same_choices(const RoutedPass& pass, std::int64_t a, std::int64_t b) const;
  bool is_warm_up(const RoutedPass& pass, std::int64_t first, std::int64_t length);
  void add_sequences(const RoutedPass& pass);
  void take(const RoutedPass& pass, const std::vector<std::int64_t>& tokens);
  void take_weights(const RoutedPass& pass, const std::vector<std::int64_t>& tokens);
  void check_taken(const RoutedPass& pass, const std::vector<std::int64_t>& tokens) const;
  void flush();
  void leave_out_mtp(const RoutedPass& pass);
  void find_micro_batch(const RoutedPass& pass);
  std::string report() const;

  ImportOptions options_;
  TraceWriter& writer_;
  TraceProgress progress_;
  TraceInfo info_;
  LayerChoice layers_;
  PendingStep step_;
  std::optional<std::int64_t> open_step_;  // number that the passes of step_ have
  std::int64_t last_number_ = -1;
  std::optional<Phase> phase_;
  bool begun_ = false, leading_ = true, weighted_ = false, only_counts_ = false;
  int micro_batch_ = 0;  // sequences of a microbatch; 0: not yet known, or of no concern
  int alike_ = 0;        // guesses in a row that found the same
  bool alternate_ = false, may_alternate_ = false;
  std::int64_t tokens_ = 0, sequences_ = 0, steps_ = 0;
  std::map<std::string, std::int64_t> dropped_;  // rows (token x layer) by reason
  std::vector<Diagnostic> warnings_;
};

}  // namespace moesim
