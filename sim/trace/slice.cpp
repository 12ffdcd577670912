// SPDX-License-Identifier: Apache-2.0
#include "sim/trace/slice.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "sim/base/json.h"
#include "sim/base/ordering.h"

namespace moesim {
namespace {

/// Tokens of a step that follow each other, in whole sequences but for the last.
struct TokenRange {
  std::int64_t first = 0;
  std::int64_t count = 0;
  std::vector<std::int32_t> lengths;  // of its sequences
};

/// Some layers and a range of tokens of a step. A view: nothing is copied, so slicing a large trace
/// costs what the part costs.
class SlicedStep : public TraceStep {
 public:
  SlicedStep(std::shared_ptr<const TraceStep> step, std::vector<int> layers, TokenRange range)
      : step_(std::move(step)), layers_(std::move(layers)), range_(std::move(range)) {}

  std::int64_t number() const override { return step_->number(); }
  std::int64_t tokens() const override { return range_.count; }
  IdRows ids(int layer) const override {
    const IdRows all = step_->ids(source(layer));
    const auto* bytes = static_cast<const std::uint8_t*>(all.data());
    return {bytes + range_.first * all.top_k() * all.width(), all.width(), all.top_k(),
            range_.count};
  }
  std::span<const std::int32_t> sequence_lengths() const override { return range_.lengths; }
  bool has_weights() const override { return step_->has_weights(); }
  float weight(int layer, std::int64_t token, int k) const override {
    return step_->weight(source(layer), range_.first + token, k);
  }
  bool has_source_ranks() const override { return step_->has_source_ranks(); }
  int source_rank(std::int64_t token) const override {
    return step_->source_rank(range_.first + token);
  }

 private:
  int source(int layer) const { return layers_[layer]; }

  std::shared_ptr<const TraceStep> step_;
  std::vector<int> layers_;  // indices in step_
  TokenRange range_;
};

/// The wanted sequences of a step, and of these the first tokens.
TokenRange token_range(const TraceStep& step, const SliceOptions& options) {
  const auto lengths = step.sequence_lengths();
  const int count = static_cast<int>(lengths.size());
  const auto [first, last] = options.sequences.value_or(std::pair(0, count));
  if (first < 0 || first >= last || first >= count) {
    throw Error(fmt::format("sequences {}:{} are none of step {}", first, last, step.number()),
                fmt::format("its sequences are 0:{}, the second not included", count));
  }
  TokenRange range;
  range.first = std::accumulate(lengths.begin(), lengths.begin() + first, std::int64_t{0});
  std::int64_t left = options.tokens.value_or(step.tokens());
  for (int s = first; s < std::min(last, count) && left > 0; ++s) {
    range.lengths.push_back(static_cast<std::int32_t>(std::min<std::int64_t>(left, lengths[s])));
    left -= range.lengths.back();
    range.count += range.lengths.back();
  }
  return range;
}

/// Indices of the wanted layers among those of the trace, whose numbers replace info.layers.
std::vector<int> choose_layers(const SliceOptions& options, TraceInfo& info) {
  const std::vector<int> all = info.layers;
  if (!options.layers.empty()) info.layers = options.layers;
  sort_once(info.layers);
  std::vector<int> indices;
  for (const int layer : info.layers) {
    const auto at = std::find(all.begin(), all.end(), layer);
    if (at == all.end()) {
      throw Error(fmt::format("trace '{}' has no layer {}", info.name, layer),
                  fmt::format("its layers are {}", fmt::join(all, ", ")));
    }
    indices.push_back(static_cast<int>(at - all.begin()));
  }
  return indices;
}

/// The trace and the part that was taken, in addition to the provenance of the trace itself.
std::string provenance(const RoutingTrace& trace, const SliceOptions& options) {
  using Json = nlohmann::ordered_json;
  const std::string& before = trace.info().provenance;
  Json part = {{"name", trace.info().name}, {"hash", trace.hash()}};
  if (options.steps) part["steps"] = {options.steps->first, options.steps->second};
  if (!options.layers.empty()) part["layers"] = options.layers;
  if (options.sequences) {
    part["sequences"] = {options.sequences->first, options.sequences->second};
  }
  if (options.tokens) part["tokens"] = *options.tokens;
  return Json{{"sliced_from", part}, {"provenance", own_json(before.empty() ? "{}" : before)}}
      .dump();
}

}  // namespace

RoutingTrace slice(const RoutingTrace& trace, const SliceOptions& options) {
  TraceInfo info = trace.info();
  const std::vector<int> layers = choose_layers(options, info);
  const auto [first, last] = options.steps.value_or(std::pair(0, trace.step_count()));
  if (first < 0 || last > trace.step_count() || first >= last) {
    throw Error(fmt::format("steps {}:{} are none of trace '{}'", first, last, info.name),
                fmt::format("its steps are 0:{}, the second not included", trace.step_count()));
  }
  if (options.tokens && *options.tokens < 1) throw Error("a slice has at least one token");
  info.provenance = provenance(trace, options);
  if (!options.name.empty()) info.name = options.name;
  std::vector<std::shared_ptr<const TraceStep>> steps;
  for (int s = first; s < last; ++s) {
    const auto step = trace.shared_step(s);
    steps.push_back(std::make_shared<SlicedStep>(step, layers, token_range(*step, options)));
  }
  return {std::move(info), std::move(steps)};
}

}  // namespace moesim
