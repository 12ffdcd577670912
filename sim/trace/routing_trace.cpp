// SPDX-License-Identifier: Apache-2.0
#include "sim/trace/routing_trace.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <vector>

#include "sim/base/file_claims.h"
#include "sim/base/files.h"
#include "sim/trace/native_step.h"
#include "sim/trace/trace_json.h"

namespace moesim {
namespace {

/// XXH3 over a stream of values; every array goes in with its length.
class Hash {
 public:
  Hash() { XXH3_128bits_reset(state_.get()); }
  void bytes(const void* data, std::size_t size) { XXH3_128bits_update(state_.get(), data, size); }
  void number(std::int64_t value) { bytes(&value, sizeof value); }
  void text(const std::string& value) {
    number(static_cast<std::int64_t>(value.size()));
    bytes(value.data(), value.size());
  }
  std::string hex() const {
    const XXH128_hash_t h = XXH3_128bits_digest(state_.get());
    return fmt::format("{:016x}{:016x}", h.high64, h.low64);
  }

 private:
  struct Free {
    void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
  };
  std::unique_ptr<XXH3_state_t, Free> state_{XXH3_createState()};
};

void add(Hash& hash, const TraceInfo& info) {
  hash.text("moesim-trace 1");
  hash.text(info.name);
  hash.text(info.model);
  hash.number(info.experts);
  hash.number(info.top_k);
  hash.number(static_cast<std::int64_t>(info.layers.size()));
  for (const int layer : info.layers) hash.number(layer);
  hash.text(to_string(info.phase));
}

void add_weights(Hash& hash, const TraceStep& step, int layer, int top_k) {
  std::vector<float> row(top_k);
  for (std::int64_t t = 0; t < step.tokens(); ++t) {
    for (int k = 0; k < top_k; ++k) row[k] = step.weight(layer, t, k);
    hash.bytes(row.data(), row.size() * sizeof(float));
  }
}

void add(Hash& hash, const TraceStep& step, const TraceInfo& info) {
  hash.number(step.number());
  hash.number(step.tokens());
  const auto lengths = step.sequence_lengths();
  hash.number(static_cast<std::int64_t>(lengths.size()));
  hash.bytes(lengths.data(), lengths.size_bytes());
  hash.number(step.has_source_ranks());
  if (step.has_source_ranks()) {
    for (std::int64_t t = 0; t < step.tokens(); ++t) hash.number(step.source_rank(t));
  }
  hash.number(step.has_weights());
  for (int layer = 0; layer < static_cast<int>(info.layers.size()); ++layer) {
    const IdRows ids = step.ids(layer);
    hash.number(ids.width());
    hash.bytes(ids.data(), static_cast<std::size_t>(ids.tokens() * ids.top_k() * ids.width()));
    if (step.has_weights()) add_weights(hash, step, layer, info.top_k);
  }
}

/// The hash that was asked for last: steps do not change, and a program that keeps a trace open
/// asks for it with every result.
class LastHash {
 public:
  using Steps = std::vector<std::shared_ptr<const TraceStep>>;

  /// `info` tells what is the trace's besides its steps.
  std::string of(const Steps& steps, const std::string& info,
                 const std::function<std::string()>& make) {
    const std::lock_guard guard(mutex_);
    if (info == info_ && is_of(steps)) return hash_;
    hash_ = make();
    info_ = info;
    steps_.assign(steps.begin(), steps.end());
    return hash_;
  }

 private:
  bool is_of(const Steps& steps) const {
    const auto same = [](const std::weak_ptr<const TraceStep>& kept,
                         const std::shared_ptr<const TraceStep>& step) {
      return kept.lock() == step;
    };
    return std::equal(steps_.begin(), steps_.end(), steps.begin(), steps.end(), same);
  }

  std::mutex mutex_;
  std::vector<std::weak_ptr<const TraceStep>> steps_;
  std::string info_, hash_;
};

}  // namespace

RoutingTrace RoutingTrace::open(const std::string& directory) {
  if (!is_folder(directory)) {
    throw error_in(directory, is_there(directory) ? "is not a trace: a trace is a folder"
                                                  : "there is no such trace");
  }
  note_input_folder(directory);
  TraceInfo info = read_trace_json(directory);
  std::vector<Diagnostic> problems;
  std::vector<std::shared_ptr<const TraceStep>> steps;
  for (const auto& folder : find_step_folders(directory, problems)) {
    steps.push_back(open_step(folder, info, problems));
  }
  if (!problems.empty()) throw Error(std::move(problems));
  return {std::move(info), std::move(steps)};
}

RoutingTrace::RoutingTrace(TraceInfo info, std::vector<std::shared_ptr<const TraceStep>> steps)
    : info_(std::move(info)), steps_(std::move(steps)) {
  for (const auto& step : steps_) {
    if (!step) throw std::invalid_argument("a trace needs its steps");
  }
}

std::int64_t RoutingTrace::total_tokens() const {
  std::int64_t tokens = 0;
  for (const auto& step : steps_) tokens += step->tokens();
  return tokens;
}

std::string RoutingTrace::hash() const {
  Hash hash;
  add(hash, info_);
  static LastHash last;
  return last.of(steps_, hash.hex(), [&] {
    for (const auto& step : steps_) add(hash, *step, info_);
    return hash.hex();
  });
}

}  // namespace moesim
