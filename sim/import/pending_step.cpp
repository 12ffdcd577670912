// SPDX-License-Identifier: Apache-2.0
#include "sim/import/pending_step.h"

#include "sim/trace/memory_step.h"

namespace moesim {

void PendingStep::begin(std::int64_t number, const TraceInfo& info) {
  number_ = number;
  tokens_ = 0;
  top_k_ = info.top_k;
  width_ = id_width(info.experts);
  ids_.resize(info.layers.size());
  weights_.resize(info.layers.size());
  for (auto& layer : ids_) layer.clear();  // keeps its memory: steps are alike
  for (auto& layer : weights_) layer.clear();
  lengths_.clear();
  ranks_.clear();
  ranked_ = true;
}

std::uint8_t* PendingStep::grow(int layer, std::int64_t ids) {
  auto& bytes = ids_[static_cast<std::size_t>(layer)];
  const std::size_t before = bytes.size();
  bytes.resize(before + static_cast<std::size_t>(ids * width_));
  return bytes.data() + before;
}

void PendingStep::add_sequence(std::int32_t tokens, int source_rank) {
  lengths_.push_back(tokens);
  tokens_ += tokens;
  ranked_ = ranked_ && source_rank >= 0;
  if (ranked_) ranks_.insert(ranks_.end(), static_cast<std::size_t>(tokens), source_rank);
}

IdRows PendingStep::ids(int layer) const {
  return {ids_[static_cast<std::size_t>(layer)].data(), width_, top_k_, tokens_};
}

}  // namespace moesim
