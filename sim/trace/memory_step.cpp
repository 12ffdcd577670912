// SPDX-License-Identifier: Apache-2.0
#include "sim/trace/memory_step.h"

#include <cstring>
#include <numeric>
#include <stdexcept>

#include "sim/base/most.h"

namespace moesim {
namespace {

static_assert(max_experts == IdRows::dropped, "no expert has the id of a dropped choice");

class MemoryStep : public TraceStep {
 public:
  MemoryStep(const TraceInfo& info, StepArrays arrays)
      : arrays_(std::move(arrays)),
        top_k_(info.top_k),
        tokens_(std::accumulate(arrays_.sequence_lengths.begin(), arrays_.sequence_lengths.end(),
                                std::int64_t{0})) {
    const std::int64_t ids = static_cast<std::int64_t>(info.layers.size()) * tokens_ * top_k_;
    if (arrays_.ids.count() != ids || arrays_.ids.width() != id_width(info.experts)) {
      throw std::invalid_argument("ids are not [layers][tokens][top_k] of the trace's experts");
    }
    if (has_weights() && static_cast<std::int64_t>(arrays_.weights.size()) != ids) {
      throw std::invalid_argument("weights do not have the shape of ids");
    }
    if (has_source_ranks() && static_cast<std::int64_t>(arrays_.source_ranks.size()) != tokens_) {
      throw std::invalid_argument("source_ranks do not have one entry per token");
    }
  }

  std::int64_t number() const override { return arrays_.number; }
  std::int64_t tokens() const override { return tokens_; }
  IdRows ids(int layer) const override {
    return {arrays_.ids.data() + row(layer, 0) * arrays_.ids.width(), arrays_.ids.width(), top_k_,
            tokens_};
  }
  std::span<const std::int32_t> sequence_lengths() const override {
    return arrays_.sequence_lengths;
  }
  bool has_weights() const override { return !arrays_.weights.empty(); }
  float weight(int layer, std::int64_t token, int k) const override {
    return arrays_.weights[row(layer, token) + k];
  }
  bool has_source_ranks() const override { return !arrays_.source_ranks.empty(); }
  int source_rank(std::int64_t token) const override {
    return has_source_ranks() ? arrays_.source_ranks[token] : 0;
  }

 private:
  std::int64_t row(int layer, std::int64_t token) const {
    return (layer * tokens_ + token) * top_k_;
  }

  StepArrays arrays_;
  int top_k_;
  std::int64_t tokens_;
};

}  // namespace

IdArray::IdArray(int experts, std::span<const int> ids)
    : IdArray(experts, static_cast<std::int64_t>(ids.size())) {
  for (std::size_t i = 0; i < ids.size(); ++i) set(static_cast<std::int64_t>(i), ids[i]);
}

void IdArray::set(std::int64_t i, int id) {
  const auto narrow = static_cast<std::uint16_t>(id);
  std::memcpy(bytes_.data() + i * width_, &narrow, static_cast<std::size_t>(width_));
}

std::shared_ptr<const TraceStep> make_step(const TraceInfo& info, StepArrays arrays) {
  return std::make_shared<MemoryStep>(info, std::move(arrays));
}

}  // namespace moesim
