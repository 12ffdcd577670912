// SPDX-License-Identifier: Apache-2.0
// A step in the making: layers grow by the tokens of one pass after the other.
#pragma once

#include <vector>

#include "sim/trace/routing_trace.h"

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

}  // namespace moesim
