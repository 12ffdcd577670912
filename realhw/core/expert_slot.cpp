// SPDX-License-Identifier: Apache-2.0
#include "realhw/core/expert_slot.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "realhw/core/gemm.h"

namespace moesim {

ExpertSlot::ExpertSlot(const ExpertShape& shape, int layer, ExpertId expert)
    : shape_(shape),
      expert_(expert),
      weights_(shape, layer, expert),
      input_(shape.hidden),
      h_(shape.up()),
      activated_(shape.ffn),
      output_(shape.hidden),
      gradient_(shape.hidden),
      activated_gradient_(shape.ffn),
      h_gradient_(shape.up()),
      input_gradient_(shape.hidden),
      input_again_(shape.hidden),
      h_again_(shape.up()),
      activated_again_(shape.ffn),
      w1_gradient_(weights_.w1.size()),
      w2_gradient_(weights_.w2.size()) {}

void ExpertSlot::reset() {
  forward_.choices.clear();
  backward_.choices.clear();
  for (RowMatrix* matrix :
       {&input_, &h_, &activated_, &output_, &gradient_, &activated_gradient_, &h_gradient_,
        &input_gradient_, &input_again_, &h_again_, &activated_again_}) {
    matrix->values.clear();
  }
  std::fill(w1_gradient_.begin(), w1_gradient_.end(), 0.0f);
  std::fill(w2_gradient_.begin(), w2_gradient_.end(), 0.0f);
  fc1_ = activation_ = fc2_ = outputs_taken_ = fc1_again_ = activation_again_ = 0;
  fc2_dgrad_ = fc2_wgrad_ = activation_gradient_done_ = fc1_dgrad_ = fc1_wgrad_ = 0;
  fc2_again_ = gradients_taken_ = 0;
  next_gradient_ = 0;
}

std::int64_t ExpertSlot::begin(const char* kernel, std::int64_t& cursor, std::int64_t m,
                               std::int64_t available) const {
  if (cursor + m > available) {
    throw std::runtime_error(fmt::format("{} of expert {} is to compute rows {} to {}, {} are here",
                                         kernel, expert_.value, cursor, cursor + m, available));
  }
  return std::exchange(cursor, cursor + m);
}

void ExpertSlot::add_input(ChoiceId choice, std::span<const float> values) {
  forward_.choices.push_back(choice);
  input_.values.insert(input_.values.end(), values.begin(), values.end());
}

void ExpertSlot::add_gradient(ChoiceId choice, std::span<const float> values, float weight) {
  const auto& rows = forward_.choices;
  if (next_gradient_ >= rows.size() || rows[next_gradient_] != choice) {
    next_gradient_ =
        static_cast<std::size_t>(std::find(rows.begin(), rows.end(), choice) - rows.begin());
  }
  const auto i = static_cast<std::int64_t>(next_gradient_++);
  if (i >= activation_) {
    throw std::runtime_error(
        fmt::format("expert {} gets the gradient of a row that it never had", expert_.value));
  }
  backward_.choices.push_back(choice);
  for (const float value : values) gradient_.values.push_back(value * weight);
  const auto copy = [i](const RowMatrix& from, RowMatrix& to) {
    to.values.insert(to.values.end(), from.row(i), from.row(i + 1));
  };
  copy(input_, input_again_);
  copy(h_, h_again_);
  copy(activated_, activated_again_);
}

void ExpertSlot::fc1(std::int64_t m, bool padded) {
  if (padded) {
    forward_.pad_to(fc1_ + m);
    input_.resize(forward_.count());
  }
  const std::int64_t i = begin("fc1", fc1_, m, forward_.count());
  h_.resize(fc1_);
  multiply(m, shape_.up(), shape_.hidden, input_.row(i), weights_.w1.data(), h_.row(i));
}

void ExpertSlot::activation() {
  activated_.resize(fc1_);
  for (; activation_ < fc1_; ++activation_) {
    activate(shape_, h_.row(activation_), activated_.row(activation_));
  }
}

void ExpertSlot::fc2(std::int64_t m) {
  const std::int64_t i = begin("fc2", fc2_, m, activation_);
  output_.resize(fc2_);
  multiply(m, shape_.hidden, shape_.ffn, activated_.row(i), weights_.w2.data(), output_.row(i));
}

void ExpertSlot::fc1_again(std::int64_t m) {
  const std::int64_t i = begin("fc1-recompute", fc1_again_, m, fc1_);
  multiply(m, shape_.up(), shape_.hidden, input_.row(i), weights_.w1.data(), h_.row(i));
}

void ExpertSlot::activation_again() {
  for (; activation_again_ < fc1_again_; ++activation_again_) {
    activate(shape_, h_.row(activation_again_), activated_.row(activation_again_));
  }
}

void ExpertSlot::fc2_again(std::int64_t m) {
  const std::int64_t i = begin("fc2-recompute", fc2_again_, m, activation_again_);
  multiply(m, shape_.hidden, shape_.ffn, activated_.row(i), weights_.w2.data(), output_.row(i));
}

void ExpertSlot::fc2_dgrad(std::int64_t m, bool padded) {
  if (padded) {
    backward_.pad_to(fc2_dgrad_ + m);
    for (RowMatrix* matrix : {&gradient_, &input_again_, &h_again_, &activated_again_}) {
      matrix->resize(backward_.count());
    }
  }
  const std::int64_t i = begin("fc2-dgrad", fc2_dgrad_, m, backward_.count());
  activated_gradient_.resize(fc2_dgrad_);
  multiply_transposed(m, shape_.ffn, shape_.hidden, gradient_.row(i), weights_.w2.data(),
                      activated_gradient_.row(i));
}

void ExpertSlot::fc2_wgrad(std::int64_t m) {
  const std::int64_t i = begin("fc2-wgrad", fc2_wgrad_, m, backward_.count());
  add_outer(shape_.ffn, shape_.hidden, m, activated_again_.row(i), gradient_.row(i),
            w2_gradient_.data());
}

void ExpertSlot::activation_gradient() {
  h_gradient_.resize(fc2_dgrad_);
  for (std::int64_t& i = activation_gradient_done_; i < fc2_dgrad_; ++i) {
    activate_gradient(shape_, h_again_.row(i), activated_gradient_.row(i), h_gradient_.row(i));
  }
}

void ExpertSlot::fc1_dgrad(std::int64_t m) {
  const std::int64_t i = begin("fc1-dgrad", fc1_dgrad_, m, activation_gradient_done_);
  input_gradient_.resize(fc1_dgrad_);
  multiply_transposed(m, shape_.hidden, shape_.up(), h_gradient_.row(i), weights_.w1.data(),
                      input_gradient_.row(i));
}

void ExpertSlot::fc1_wgrad(std::int64_t m) {
  const std::int64_t i = begin("fc1-wgrad", fc1_wgrad_, m, activation_gradient_done_);
  add_outer(shape_.hidden, shape_.up(), m, input_again_.row(i), h_gradient_.row(i),
            w1_gradient_.data());
}

}  // namespace moesim
