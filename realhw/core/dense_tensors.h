// SPDX-License-Identifier: Apache-2.0
// The dense parameters of a part of a model: their order in memory, and where they start.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "realhw/core/dense_math.h"
#include "sim/model/moe_model.h"
#include "sim/planner/parallel/layer_layout.h"

namespace moesim {

enum class DenseTensorId {
  embedding,  // [words x hidden]
  attention_norm,
  projections,  // [hidden x queries, keys, values]
  query_norm,   // of every head
  key_norm,
  attention_output,  // [queries x hidden]
  ffn_norm,
  dense_fc1,  // [hidden x up]
  dense_fc2,  // [ffn x hidden]
  router,     // [hidden x experts]
  shared_fc1,
  shared_fc2,
  head_norm,
  head  // [hidden x words]
};

/// Which part of the tensors a GPU of a tensor group has: heads, columns of first and rows of
/// second products, words. Norms and the router are whole.
struct TensorShare {
  int parts = 1, part = 0;
};

struct DenseTensor {
  DenseTensorId id;
  std::int64_t rows = 0, columns = 0;  // here; a norm has one row
  std::int64_t offset = 0;             // elements before it in the part
  std::int64_t whole_rows = 0;
  bool divided = false;
  bool is_gain() const;
};

/// Products of activations with a gated unit have twice its columns.
std::int64_t up_columns(const MoeModel& model, std::int64_t ffn);
std::int64_t shared_width(const MoeModel& model);
HeadShape heads_of(const MoeModel& model, int parts = 1);

class DenseTensors {
 public:
  DenseTensors(const MoeModel& model, const StagePart& part, TensorShare share = {});
  const StagePart& part() const { return part_; }
  const std::vector<DenseTensor>& all() const { return tensors_; }
  const DenseTensor& operator[](DenseTensorId id) const;
  std::int64_t elements() const { return elements_; }
  /// All elements at the start: gains near 1, others uniform in +-sqrt(3 / rows).
  std::vector<float> initial() const;
  /// What is here of a list that has a value for each element of the undivided tensors.
  template <class Value>
  std::vector<Value> own(const std::vector<Value>& of_whole) const {
    std::vector<Value> values;
    for (const std::int64_t at : in_whole_)
      values.push_back(of_whole[static_cast<std::size_t>(at)]);
    return values;
  }
  std::int64_t whole_elements() const { return whole_elements_; }
  /// The moments of Adam at the start, of `elements` elements: +-1e-3 and 1e-6 to 2e-6. `seed`
  /// tells parts apart.
  static void fill_moments(std::uint64_t seed, std::vector<float>& first,
                           std::vector<float>& second);
  std::uint64_t seed() const;

 private:
  void add(DenseTensorId id, std::int64_t rows, std::int64_t columns);
  /// The same row or column range of `share_` in each of these runs of rows or columns.
  void add_divided(DenseTensorId id, std::int64_t rows, std::int64_t columns,
                   const std::vector<std::int64_t>& runs, bool by_rows);

  StagePart part_;
  TensorShare share_;
  std::vector<DenseTensor> tensors_;
  std::int64_t elements_ = 0, whole_elements_ = 0;
  std::vector<std::int64_t> in_whole_;  // [element] its place in the undivided tensors
};

/// Seed of the moments of an expert.
std::uint64_t expert_seed(int layer, ExpertId expert);
/// The word at a place of a replica's sequences, and the one behind it, which is to be predicted.
std::int64_t word_at(std::int64_t words, int microbatch, std::int64_t replica, std::int64_t place);

}  // namespace moesim
