// SPDX-License-Identifier: Apache-2.0
#include "realhw/core/reference.h"

#include <algorithm>

namespace moesim {
namespace {

void round_to(RowFormat format, std::vector<float>& values) {
  std::vector<std::byte> rounded(values.size() * size_of(format));
  encode(format, values, rounded.data());
  decode(format, rounded.data(), values);
}

}  // namespace

Comparison& Comparison::operator+=(const Comparison& other) {
  outputs += other.outputs;
  wrong_outputs += other.wrong_outputs;
  input_gradients += other.input_gradients;
  wrong_input_gradients += other.wrong_input_gradients;
  weight_gradients += other.weight_gradients;
  wrong_weight_gradients += other.wrong_weight_gradients;
  wrong_bytes += other.wrong_bytes;
  weights += other.weights;
  wrong_weights += other.wrong_weights;
  return *this;
}

ReferenceExpert::ReferenceExpert(const ExpertShape& shape, int layer, ExpertId expert,
                                 RowFormat parameters)
    : shape_(shape), weights_(shape, layer, expert), h_(up()), a_(ffn()) {
  round_to(parameters, weights_.w1);
  round_to(parameters, weights_.w2);
}

void ReferenceExpert::forward(const std::vector<float>& x) {
  std::fill(h_.begin(), h_.end(), 0.0);
  for (std::size_t c = 0; c < hidden(); ++c) {
    for (std::size_t u = 0; u < up(); ++u) h_[u] += x[c] * weights_.w1[c * up() + u];
  }
  activate(shape_.ffn, shape_.gated, h_.data(), a_.data());
}

Doubles ReferenceExpert::output(const std::vector<float>& x) {
  forward(x);
  Doubles y(hidden());
  for (std::size_t f = 0; f < ffn(); ++f) {
    for (std::size_t c = 0; c < hidden(); ++c) y[c] += a_[f] * weights_.w2[f * hidden() + c];
  }
  return y;
}

Doubles ReferenceExpert::backward(const std::vector<float>& x, const Doubles& dy, Doubles* dw1,
                                  Doubles* dw2) {
  forward(x);
  Doubles da(ffn()), dh(up()), dx(hidden());
  for (std::size_t f = 0; f < ffn(); ++f) {
    for (std::size_t c = 0; c < hidden(); ++c) {
      da[f] += dy[c] * weights_.w2[f * hidden() + c];
      if (dw2 != nullptr) (*dw2)[f * hidden() + c] += a_[f] * dy[c];
    }
  }
  activate_gradient(shape_.ffn, shape_.gated, h_.data(), da.data(), dh.data());
  for (std::size_t c = 0; c < hidden(); ++c) {
    for (std::size_t u = 0; u < up(); ++u) {
      dx[c] += dh[u] * weights_.w1[c * up() + u];
      if (dw1 != nullptr) (*dw1)[c * up() + u] += x[c] * dh[u];
    }
  }
  return dx;
}

}  // namespace moesim
