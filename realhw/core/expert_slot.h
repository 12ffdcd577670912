// SPDX-License-Identifier: Apache-2.0
// What one slot's expert computes in a step: rows are appended, kernels take the next `m` of them.
#pragma once

#include <string>
#include <vector>

#include "realhw/core/expert_shape.h"
#include "realhw/core/routed_layer.h"

namespace moesim {

/// A row-major matrix that grows by rows.
struct RowMatrix {
  explicit RowMatrix(std::int64_t w) : width(w) {}
  float* row(std::int64_t i) { return values.data() + i * width; }
  const float* row(std::int64_t i) const { return values.data() + i * width; }
  void resize(std::int64_t rows) { values.resize(static_cast<std::size_t>(rows * width)); }

  std::int64_t width;
  std::vector<float> values;
};

/// The rows of one slot in one pass, in the order in which they were gathered. Below 0: padding.
struct SlotRows {
  std::vector<ChoiceId> choices;
  std::int64_t count() const { return static_cast<std::int64_t>(choices.size()); }
  void pad_to(std::int64_t rows) {
    if (count() < rows) choices.resize(static_cast<std::size_t>(rows), ChoiceId(-1));
  }
};

/// Kernels throw std::runtime_error when they would compute rows that are not there yet; rows
/// beyond those of a padded exchange are zeros.
class ExpertSlot {
 public:
  ExpertSlot(const ExpertShape& shape, int layer, ExpertId expert);
  void reset();  // before a step

  /// Appends rows; the vectors are the token's, and the output gradient times the gate weight.
  void add_input(ChoiceId choice, std::span<const float> values);
  void add_gradient(ChoiceId choice, std::span<const float> values, float weight);

  void fc1(std::int64_t m, bool padded);
  void activation();
  void fc2(std::int64_t m);
  void fc1_again(std::int64_t m);  // activation checkpointing
  void activation_again();
  void fc2_again(std::int64_t m);
  void fc2_dgrad(std::int64_t m, bool padded);
  void fc2_wgrad(std::int64_t m);
  void activation_gradient();
  void fc1_dgrad(std::int64_t m);
  void fc1_wgrad(std::int64_t m);

  /// Calls visit(choice, row) for results that were not yet taken: outputs of fc2, or gradients by
  /// the input.
  template <class Visit>
  void take_outputs(Visit visit) {
    take(forward_, output_, outputs_taken_, fc2_, visit);
  }
  template <class Visit>
  void take_input_gradients(Visit visit) {
    take(backward_, input_gradient_, gradients_taken_, fc1_dgrad_, visit);
  }
  const std::vector<float>& w1_gradient() const { return w1_gradient_; }
  const std::vector<float>& w2_gradient() const { return w2_gradient_; }
  ExpertId expert() const { return expert_; }

 private:
  template <class Visit>
  static void take(const SlotRows& rows, const RowMatrix& matrix, std::int64_t& taken,
                   std::int64_t done, Visit visit) {
    for (; taken < done; ++taken) {
      const ChoiceId choice = rows.choices[static_cast<std::size_t>(taken)];
      if (choice.value < 0) continue;
      visit(choice, std::span(matrix.row(taken), static_cast<std::size_t>(matrix.width)));
    }
  }
  std::int64_t begin(const char* kernel, std::int64_t& cursor, std::int64_t m,
                     std::int64_t available) const;

  ExpertShape shape_;
  ExpertId expert_;
  ExpertWeights weights_;

  SlotRows forward_, backward_;
  std::size_t next_gradient_ = 0;  // where the forward row of the next gradient probably is
  RowMatrix input_, h_, activated_, output_;  // in the order of forward_
  RowMatrix gradient_, activated_gradient_, h_gradient_, input_gradient_;  // of backward_
  RowMatrix input_again_, h_again_, activated_again_;  // of backward_, for its products
  std::vector<float> w1_gradient_, w2_gradient_;

  // Rows that each kernel has done.
  std::int64_t fc1_ = 0, activation_ = 0, fc2_ = 0, outputs_taken_ = 0;
  std::int64_t fc1_again_ = 0, activation_again_ = 0, fc2_again_ = 0;
  std::int64_t fc2_dgrad_ = 0, fc2_wgrad_ = 0, activation_gradient_done_ = 0;
  std::int64_t fc1_dgrad_ = 0, fc1_wgrad_ = 0, gradients_taken_ = 0;
};

}  // namespace moesim
