// SPDX-License-Identifier: Apache-2.0
#include "realhw/program/held_parameters.h"

#include <fmt/format.h>

namespace moesim {
namespace {

std::string name_of_part(const StagePart& part) {
  if (part.kind == StagePartKind::embedding) return "embedding";
  if (part.kind == StagePartKind::head) return "head";
  return fmt::format("layer {} dense", part.number);
}

}  // namespace

HeldParameters::HeldParameters(Draft& draft, const HeldStage& stage, HeldPlace place)
    : draft_(draft), stage_(stage), place_(place) {
  std::int64_t shared = 0;
  for (const HeldChunk& chunk : stage.chunks) {
    for (const StagePart& part : chunk.parts) add_dense(part, shared);
  }
}

/// Shards differ by one element at most, and larger ones take turns from part to part: the shards
/// of all parts together differ by one at most, too, as the plan divides them.
void HeldParameters::add_dense(const StagePart& part, std::int64_t& shared) {
  DenseTensors tensors(draft_.step.iteration->model, part, share());
  const std::string name = name_of_part(part);
  std::vector<float> weights = tensors.initial();
  std::vector<float> first(static_cast<std::size_t>(tensors.whole_elements()));
  std::vector<float> second(first.size());
  DenseTensors::fill_moments(tensors.seed(), first, second);
  first = tensors.own(first);
  second = tensors.own(second);
  DenseBuffers made{std::move(tensors),
                    buffer(name + " weights", std::move(weights)),
                    buffer(name + " gradients", {}),
                    buffer(name + " first moments", {}),
                    buffer(name + " second moments", {}),
                    {},
                    {}};
  const std::int64_t elements = made.tensors.elements(), n = draft_.step.iteration->replicas();
  for (const BufferId id : {made.gradients, made.first, made.second}) {
    draft_.program.buffers[id.index()].bytes = elements * float_bytes;
  }
  draft_.program.zeroed.push_back(made.gradients);
  draft_.program.initial.push_back({{made.first, 0}, std::move(first)});
  draft_.program.initial.push_back({{made.second, 0}, std::move(second)});
  made.shard_begin = {0};
  for (std::int64_t r = 0; r < n; ++r) {
    const bool larger = (r + n - shared % n) % n < elements % n;
    made.shard_begin.push_back(made.shard_begin.back() + elements / n + (larger ? 1 : 0));
  }
  shared += elements % n;
  order_.emplace_back(part.kind, part.number);
  dense_.emplace(order_.back(), std::move(made));
}

BufferId HeldParameters::buffer(const std::string& name, std::vector<float> values) {
  const BufferId id = draft_.add_buffer(name, std::ssize(values) * float_bytes, RowFormat::float32);
  if (!values.empty()) draft_.program.initial.push_back({{id, 0}, std::move(values)});
  return id;
}

std::vector<GpuId> HeldParameters::tensor_group() const {
  const int tp = draft_.step.iteration->tp;
  const auto first = stage_.gpus.begin() + place_.replica * tp;
  return {first, first + tp};
}

std::vector<DenseBuffers*> HeldParameters::all_dense() {
  std::vector<DenseBuffers*> list;
  for (const auto& key : order_) list.push_back(&dense_.at(key));
  return list;
}

void HeldParameters::add_moments() {
  for (const auto& [layer, buffers] : draft_.experts) {
    std::vector<float> first, second;
    const ExpertShape& shape = draft_.step.shape;
    const std::int64_t elements = shape.hidden * (shape.up() + shape.ffn);
    for (const ExpertId expert : buffers.experts) {
      std::vector<float> one(static_cast<std::size_t>(elements)), two(one.size());
      DenseTensors::fill_moments(expert_seed(layer, expert), one, two);
      first.insert(first.end(), one.begin(), one.end());
      second.insert(second.end(), two.begin(), two.end());
    }
    moments_[layer] = {buffer(fmt::format("layer {} first moments", layer), std::move(first)),
                       buffer(fmt::format("layer {} second moments", layer), std::move(second)),
                       {}};
  }
}

}  // namespace moesim
