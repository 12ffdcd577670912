// SPDX-License-Identifier: Apache-2.0
// The arithmetic of one expert: y = act(x W1) W2 with act(g, u) = silu(g) u for gated experts
// (columns of W1: gate, then up) and act(h) = silu(h) for plain ones.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "sim/model/moe_model.h"

namespace moesim {

struct ExpertShape {
  ExpertShape(std::int64_t hidden_size, std::int64_t ffn_size, bool is_gated)
      : hidden(hidden_size), ffn(ffn_size), gated(is_gated) {}
  explicit ExpertShape(const MoeModel& model)
      : ExpertShape(model.hidden, model.expert_ffn, model.expert_matrices == 3) {}
  std::int64_t up() const { return gated ? 2 * ffn : ffn; }  // columns of W1

  std::int64_t hidden, ffn;
  bool gated;
};

/// W1 [hidden x up] and W2 [ffn x hidden] of an expert of a layer.
struct ExpertWeights {
  ExpertWeights(const ExpertShape& shape, int layer, ExpertId expert);
  std::vector<float> w1, w2;
};

/// out[ffn] of h[up].
template <class Float>
void activate(std::int64_t ffn, bool gated, const Float* h, Float* out) {
  for (std::int64_t f = 0; f < ffn; ++f) {
    const Float silu = h[f] / (1 + std::exp(-h[f]));
    out[f] = gated ? silu * h[ffn + f] : silu;
  }
}

/// Gradient by h[up] from that of out[ffn].
template <class Float>
void activate_gradient(std::int64_t ffn, bool gated, const Float* h, const Float* out_gradient,
                       Float* gradient) {
  for (std::int64_t f = 0; f < ffn; ++f) {
    const Float sigmoid = 1 / (1 + std::exp(-h[f]));
    const Float slope = sigmoid * (1 + h[f] * (1 - sigmoid));
    const Float factor = gated ? h[ffn + f] : Float{1};
    gradient[f] = out_gradient[f] * slope * factor;
    if (gated) gradient[ffn + f] = out_gradient[f] * h[f] * sigmoid;
  }
}

}  // namespace moesim
