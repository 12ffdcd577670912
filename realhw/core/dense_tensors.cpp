// SPDX-License-Identifier: Apache-2.0
#include "realhw/core/dense_tensors.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "realhw/core/numbers.h"

namespace moesim {
namespace {

enum Seed : std::uint64_t { part_seed = 101, expert_moments, words_seed };

std::uint64_t whole_number(std::int64_t value) { return static_cast<std::uint64_t>(value); }

/// Uniform in [-1, 1) with 24 bits.
float balanced(std::uint64_t bits) { return 2 * (static_cast<float>(bits >> 40) * 0x1p-24f) - 1; }

}  // namespace

bool DenseTensor::is_gain() const {
  switch (id) {
    case DenseTensorId::attention_norm:
    case DenseTensorId::query_norm:
    case DenseTensorId::key_norm:
    case DenseTensorId::ffn_norm:
    case DenseTensorId::head_norm:
      return true;
    default:
      return false;
  }
}

std::int64_t up_columns(const MoeModel& model, std::int64_t ffn) {
  return (model.expert_matrices - 1) * ffn;
}

std::int64_t shared_width(const MoeModel& model) {
  return std::int64_t{1} * model.shared_experts * model.shared_ffn;
}

HeadShape heads_of(const MoeModel& model) {
  const AttentionShape& shape = *model.attention->shape;
  return {shape.heads, shape.kv_heads, shape.head_dim};
}

DenseTensors::DenseTensors(const MoeModel& model, const StagePart& part) : part_(part) {
  const std::int64_t hidden = model.hidden;
  if (part.kind == StagePartKind::embedding) {
    add(DenseTensorId::embedding, model.vocabulary, hidden);
  } else if (part.kind == StagePartKind::head) {
    add(DenseTensorId::head_norm, 1, hidden);
    add(DenseTensorId::head, hidden, model.vocabulary);
  } else {
    const HeadShape heads = heads_of(model);
    add(DenseTensorId::attention_norm, 1, hidden);
    add(DenseTensorId::projections, hidden, heads.width());
    if (model.attention->shape->qk_norm) {
      add(DenseTensorId::query_norm, 1, heads.dim);
      add(DenseTensorId::key_norm, 1, heads.dim);
    }
    add(DenseTensorId::attention_output, heads.out_width(), hidden);
    add(DenseTensorId::ffn_norm, 1, hidden);
    if (!model.is_moe_layer(part.number)) {
      add(DenseTensorId::dense_fc1, hidden, up_columns(model, model.dense_ffn));
      add(DenseTensorId::dense_fc2, model.dense_ffn, hidden);
      return;
    }
    add(DenseTensorId::router, hidden, model.experts);
    if (shared_width(model) == 0) return;
    add(DenseTensorId::shared_fc1, hidden, up_columns(model, shared_width(model)));
    add(DenseTensorId::shared_fc2, shared_width(model), hidden);
  }
}

void DenseTensors::add(DenseTensorId id, std::int64_t rows, std::int64_t columns) {
  tensors_.push_back({id, rows, columns, elements_});
  elements_ += rows * columns;
}

const DenseTensor& DenseTensors::operator[](DenseTensorId id) const {
  const auto found = std::ranges::find(tensors_, id, &DenseTensor::id);
  if (found == tensors_.end()) throw std::logic_error("the part has no such parameters");
  return *found;
}

std::uint64_t DenseTensors::seed() const {
  return mix(mix(part_seed, whole_number(static_cast<int>(part_.kind))),
             whole_number(part_.number));
}

std::vector<float> DenseTensors::initial() const {
  std::vector<float> values(static_cast<std::size_t>(elements_));
  for (const DenseTensor& tensor : tensors_) {
    const std::uint64_t of_tensor = mix(seed(), whole_number(static_cast<int>(tensor.id)));
    const bool table = tensor.id == DenseTensorId::embedding;
    const float bound = table ? 1.0f : std::sqrt(3.0f / static_cast<float>(tensor.rows));
    for (std::int64_t i = 0; i < tensor.rows * tensor.columns; ++i) {
      const float value = balanced(mix(of_tensor, whole_number(i)));
      values[static_cast<std::size_t>(tensor.offset + i)] =
          tensor.is_gain() ? 1 + 0.125f * value : bound * value;
    }
  }
  return values;
}

void DenseTensors::fill_moments(std::uint64_t seed, std::vector<float>& first,
                                std::vector<float>& second) {
  for (std::size_t i = 0; i < first.size(); ++i) {
    const std::uint64_t bits = mix(seed ^ 0x5bd1e995, i);
    first[i] = 1e-3f * balanced(bits);
    second[i] = 1e-6f * (1.5f + 0.5f * balanced(mix(bits, 1)));
  }
}

std::uint64_t expert_seed(int layer, ExpertId expert) {
  return mix(mix(expert_moments, whole_number(layer)), whole_number(expert.value));
}

std::int64_t word_at(std::int64_t words, int microbatch, std::int64_t replica, std::int64_t place) {
  const std::uint64_t of_replica =
      mix(mix(words_seed, whole_number(microbatch)), whole_number(replica));
  return static_cast<std::int64_t>(mix(of_replica, whole_number(place)) %
                                   static_cast<std::uint64_t>(words));
}

}  // namespace moesim
