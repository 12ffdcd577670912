// SPDX-License-Identifier: Apache-2.0
#include "sim/trace/slice.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/base/sort_once.h"

namespace moesim {
namespace {

/// Some layers and the first tokens of a step. A view: nothing is copied, so slicing a large trace
/// costs what the part costs.
class SlicedStep : public TraceStep {
 public:
  SlicedStep(std::shared_ptr<const TraceStep> step, std::vector<int> layers, std::int64_t tokens)
      : step_(std::move(step)), layers_(std::move(layers)), tokens_(tokens) {
    std::int64_t left = tokens;
    for (const std::int32_t length : step_->sequence_lengths()) {
      if (left == 0) break;
      lengths_.push_back(static_cast<std::int32_t>(std::min<std::int64_t>(left, length)));
      left -= lengths_.back();
    }
  }

  std::int64_t number() const override { return step_->number(); }
  std::int64_t tokens() const override { return tokens_; }
  IdRows ids(int layer) const override {
    const IdRows all = step_->ids(source(layer));
    return {all.data(), all.width(), all.top_k(), tokens_};
  }
  std::span<const std::int32_t> sequence_lengths() const override { return lengths_; }
  bool has_weights() const override { return step_->has_weights(); }
  float weight(int layer, std::int64_t token, int k) const override {
    return step_->weight(source(layer), token, k);
  }
  bool has_source_ranks() const override { return step_->has_source_ranks(); }
  int source_rank(std::int64_t token) const override { return step_->source_rank(token); }

 private:
  int source(int layer) const { return layers_[layer]; }

  std::shared_ptr<const TraceStep> step_;
  std::vector<int> layers_;  // indices in step_
  std::int64_t tokens_;
  std::vector<std::int32_t> lengths_;
};

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

/// The trace and the part that was taken, beside the provenance of the trace itself.
std::string provenance(const RoutingTrace& trace, const SliceOptions& options) {
  using Json = nlohmann::ordered_json;
  const std::string& before = trace.info().provenance;
  Json part = {{"name", trace.info().name}, {"hash", trace.hash()}};
  if (options.steps) part["steps"] = {options.steps->first, options.steps->second};
  if (!options.layers.empty()) part["layers"] = options.layers;
  if (options.tokens) part["tokens"] = *options.tokens;
  return Json{{"sliced_from", part}, {"provenance", Json::parse(before.empty() ? "{}" : before)}}
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
    const std::int64_t tokens = std::min(options.tokens.value_or(step->tokens()), step->tokens());
    steps.push_back(std::make_shared<SlicedStep>(step, layers, tokens));
  }
  return {std::move(info), std::move(steps)};
}

}  // namespace moesim
