// SPDX-License-Identifier: Apache-2.0
// Recorded routing: which experts every token chose, per step and layer. See docs/trace-format.md.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/base/error.h"
#include "sim/base/types.h"

namespace moesim {

enum class Phase { training, prefill, decode, mixed, synthetic };

/// The contents of trace.json.
struct TraceInfo {
  std::string name;
  std::string model;
  int experts = 0;
  int top_k = 0;
  std::vector<int> layers;  // model layer number of each recorded MoE layer
  Phase phase = Phase::mixed;
  std::string provenance;     // free-form JSON
  bool counts_alone = false;  // rows were dealt from counts: only their loads were recorded
};

/// Expert ids of consecutive tokens of one layer: row-major [tokens][top_k], uint8 or uint16.
class IdRows {
 public:
  /// Among ids of 2 bytes: a choice that a routing mechanism dropped. Recorded ids are never this.
  static constexpr std::uint16_t dropped = 0xffff;
  IdRows(const void* data, int width, int top_k, std::int64_t tokens)
      : data_(data), width_(width), top_k_(top_k), tokens_(tokens) {}
  int width() const { return width_; }  // bytes per id: 1 or 2
  int top_k() const { return top_k_; }
  std::int64_t tokens() const { return tokens_; }
  int at(std::int64_t token, int k) const {
    const std::int64_t i = token * top_k_ + k;
    return width_ == 1 ? static_cast<const std::uint8_t*>(data_)[i]
                       : static_cast<const std::uint16_t*>(data_)[i];
  }
  const void* data() const { return data_; }

 private:
  const void* data_;
  int width_;
  int top_k_;
  std::int64_t tokens_;
};

/// One recorded step: memory-mapped, held in memory, or a view of another one.
class TraceStep {
 public:
  virtual ~TraceStep() = default;
  virtual std::int64_t number() const = 0;  // the training or serving step it was recorded at
  virtual std::int64_t tokens() const = 0;
  virtual IdRows ids(int layer) const = 0;  // layer: index into TraceInfo::layers
  virtual std::span<const std::int32_t> sequence_lengths() const = 0;
  virtual bool has_weights() const = 0;
  virtual float weight(int layer, std::int64_t token, int k) const = 0;
  virtual bool has_source_ranks() const = 0;
  virtual int source_rank(std::int64_t token) const = 0;
};

class RoutingTrace {
 public:
  /// Opens a trace directory. Checks headers and shapes and reads no ids. Throws Error.
  static RoutingTrace open(const std::string& directory);
  /// A trace held in memory, for tests and synthesis.
  RoutingTrace(TraceInfo info, std::vector<std::shared_ptr<const TraceStep>> steps);

  const TraceInfo& info() const { return info_; }
  int step_count() const { return static_cast<int>(steps_.size()); }
  const TraceStep& step(int index) const { return *steps_[static_cast<std::size_t>(index)]; }
  std::shared_ptr<const TraceStep> shared_step(int index) const {
    return steps_[static_cast<std::size_t>(index)];
  }
  std::int64_t total_tokens() const;
  /// XXH3 of metadata (without provenance) and arrays, in hex: the identity of the input in
  /// reports.
  std::string hash() const;

 private:
  TraceInfo info_;
  std::vector<std::shared_ptr<const TraceStep>> steps_;
};

}  // namespace moesim
