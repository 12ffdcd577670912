// SPDX-License-Identifier: Apache-2.0
#include "realhw/core/dense_tensors.h"

#include <algorithm>
#include <cmath>
#include <numeric>
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

HeadShape heads_of(const MoeModel& model, int parts) {
  const AttentionShape& shape = *model.attention->shape;
  return {shape.heads / parts, shape.kv_heads / parts, shape.head_dim};
}

DenseTensors::DenseTensors(const MoeModel& model, const StagePart& part, TensorShare share)
    : part_(part), share_(share) {
  const std::int64_t hidden = model.hidden;
  const auto by_columns = [&](DenseTensorId id, const std::vector<std::int64_t>& runs) {
    add_divided(id, hidden, std::accumulate(runs.begin(), runs.end(), std::int64_t{0}), runs,
                false);
  };
  const auto by_rows = [&](DenseTensorId id, std::int64_t rows) {
    add_divided(id, rows, hidden, {rows}, true);
  };
  const auto ffn = [&](DenseTensorId fc1, DenseTensorId fc2, std::int64_t width) {
    by_columns(fc1, std::vector(static_cast<std::size_t>(model.expert_matrices - 1), width));
    by_rows(fc2, width);
  };
  if (part.kind == StagePartKind::embedding) {
    by_rows(DenseTensorId::embedding, model.vocabulary);
  } else if (part.kind == StagePartKind::head) {
    add(DenseTensorId::head_norm, 1, hidden);
    by_columns(DenseTensorId::head, {model.vocabulary});
  } else {
    const HeadShape heads = heads_of(model);
    const std::int64_t keys = heads.kv_heads * heads.dim;
    add(DenseTensorId::attention_norm, 1, hidden);
    by_columns(DenseTensorId::projections, {heads.out_width(), keys, keys});
    if (model.attention->shape->qk_norm) {
      add(DenseTensorId::query_norm, 1, heads.dim);
      add(DenseTensorId::key_norm, 1, heads.dim);
    }
    by_rows(DenseTensorId::attention_output, heads.out_width());
    add(DenseTensorId::ffn_norm, 1, hidden);
    if (!model.is_moe_layer(part.number)) {
      ffn(DenseTensorId::dense_fc1, DenseTensorId::dense_fc2, model.dense_ffn);
      return;
    }
    add(DenseTensorId::router, hidden, model.experts);
    if (shared_width(model) == 0) return;
    ffn(DenseTensorId::shared_fc1, DenseTensorId::shared_fc2, shared_width(model));
  }
}

void DenseTensors::add(DenseTensorId id, std::int64_t rows, std::int64_t columns) {
  tensors_.push_back({id, rows, columns, elements_, rows, false});
  for (std::int64_t i = 0; i < rows * columns; ++i) in_whole_.push_back(whole_elements_ + i);
  elements_ += rows * columns;
  whole_elements_ += rows * columns;
}

void DenseTensors::add_divided(DenseTensorId id, std::int64_t rows, std::int64_t columns,
                               const std::vector<std::int64_t>& runs, bool by_rows) {
  std::vector<std::int64_t> kept;  // rows, or columns
  std::int64_t first = 0;
  for (const std::int64_t run : runs) {
    const std::int64_t width = run / share_.parts;
    for (std::int64_t i = 0; i < width; ++i) kept.push_back(first + share_.part * width + i);
    first += run;
  }
  const std::int64_t own_rows = by_rows ? std::ssize(kept) : rows;
  const std::int64_t own_columns = by_rows ? columns : std::ssize(kept);
  tensors_.push_back({id, own_rows, own_columns, elements_, rows, share_.parts > 1});
  for (std::int64_t r = 0; r < own_rows; ++r) {
    for (std::int64_t c = 0; c < own_columns; ++c) {
      const std::int64_t row = by_rows ? kept[static_cast<std::size_t>(r)] : r;
      const std::int64_t column = by_rows ? c : kept[static_cast<std::size_t>(c)];
      in_whole_.push_back(whole_elements_ + row * columns + column);
    }
  }
  elements_ += own_rows * own_columns;
  whole_elements_ += rows * columns;
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
  std::int64_t before = 0;  // elements of undivided tensors
  for (const DenseTensor& tensor : tensors_) {
    const std::uint64_t of_tensor = mix(seed(), whole_number(static_cast<int>(tensor.id)));
    const bool table = tensor.id == DenseTensorId::embedding;
    const float bound = table ? 1.0f : std::sqrt(3.0f / static_cast<float>(tensor.whole_rows));
    const std::int64_t elements = tensor.rows * tensor.columns;
    for (std::int64_t at = tensor.offset; at < tensor.offset + elements; ++at) {
      const auto i = static_cast<std::size_t>(at);
      const float value = balanced(mix(of_tensor, whole_number(in_whole_[i] - before)));
      values[i] = tensor.is_gain() ? 1 + 0.125f * value : bound * value;
    }
    before += elements * (tensor.divided ? share_.parts : 1);
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
