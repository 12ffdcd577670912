// SPDX-License-Identifier: Apache-2.0
// The blocks of a model in the reference, forward and back.
#include <algorithm>

#include "realhw/core/expert_shape.h"
#include "realhw/core/reference_kept.h"

namespace moesim {
namespace {

StagePart part_of_layer(int number) { return {StagePartKind::layer, number}; }

}  // namespace

/// Every sequence counts its positions from 0.
void ReferenceIteration::rotate(Doubles& rows, int way) const {
  for (std::int64_t t = 0; t < tokens(); ++t) {
    for (std::int64_t head = 0; head < heads_.heads + heads_.kv_heads; ++head) {
      double* at = rows.data() + t * heads_.width() + head * heads_.dim;
      Doubles turned(static_cast<std::size_t>(heads_.dim));
      rotate_head(heads_.dim, t % held_.sequence, way, at, turned.data());
      std::ranges::copy(turned, at);
    }
  }
}

void ReferenceIteration::attention(int m, int layer, Doubles& x, Attention& kept) {
  const StagePart part = part_of_layer(layer);
  entering_[{m, layer, BlockKind::attention, Pass::forward}] = kept.x = x;
  kept.n = normed(part, DenseTensorId::attention_norm, x);
  kept.projected.resize(all(heads_.width()));
  add_product(tokens(), heads_.width(), model_.hidden, kept.n.data(),
              weights(part, DenseTensorId::projections), kept.projected.data());
  kept.normed = kept.projected;
  if (model_.attention->shape->qk_norm) {
    for (std::int64_t t = 0; t < tokens(); ++t) {
      for (std::int64_t head = 0; head < heads_.heads + heads_.kv_heads; ++head) {
        const std::int64_t at = t * heads_.width() + head * heads_.dim;
        const bool query = head < heads_.heads;
        rms_norm(heads_.dim, kept.projected.data() + at,
                 weights(part, query ? DenseTensorId::query_norm : DenseTensorId::key_norm),
                 kept.normed.data() + at);
      }
    }
  }
  kept.rotated = kept.normed;
  rotate(kept.rotated, 1);
  kept.out.resize(all(heads_.out_width()));
  for (std::int64_t t = 0; t < tokens(); t += held_.sequence) {
    causal_attention(heads_, held_.sequence, kept.rotated.data() + t * heads_.width(),
                     kept.out.data() + t * heads_.out_width());
  }
  add_product(tokens(), model_.hidden, heads_.out_width(), kept.out.data(),
              weights(part, DenseTensorId::attention_output), x.data());
}

void ReferenceIteration::attention_back(int m, int layer, Doubles& by_x, const Attention& kept) {
  const StagePart part = part_of_layer(layer);
  Doubles dout(kept.out.size()), dprojected(kept.projected.size()), dn(kept.n.size());
  add_product_transposed(tokens(), heads_.out_width(), model_.hidden, by_x.data(),
                         weights(part, DenseTensorId::attention_output), dout.data());
  add_outer_product(tokens(), model_.hidden, heads_.out_width(), kept.out.data(), by_x.data(),
                    gradients(part, DenseTensorId::attention_output));
  for (std::int64_t t = 0; t < tokens(); t += held_.sequence) {
    causal_attention_gradient(heads_, held_.sequence, kept.rotated.data() + t * heads_.width(),
                              dout.data() + t * heads_.out_width(),
                              dprojected.data() + t * heads_.width());
  }
  rotate(dprojected, -1);
  if (model_.attention->shape->qk_norm) {
    Doubles dx(static_cast<std::size_t>(heads_.dim));
    for (std::int64_t t = 0; t < tokens(); ++t) {
      for (std::int64_t head = 0; head < heads_.heads + heads_.kv_heads; ++head) {
        const std::int64_t at = t * heads_.width() + head * heads_.dim;
        const DenseTensorId gain =
            head < heads_.heads ? DenseTensorId::query_norm : DenseTensorId::key_norm;
        rms_norm_gradient(heads_.dim, kept.projected.data() + at, weights(part, gain),
                          dprojected.data() + at, dx.data(), gradients(part, gain));
        std::ranges::copy(dx, dprojected.begin() + at);
      }
    }
  }
  add_product_transposed(tokens(), model_.hidden, heads_.width(), dprojected.data(),
                         weights(part, DenseTensorId::projections), dn.data());
  add_outer_product(tokens(), heads_.width(), model_.hidden, kept.n.data(), dprojected.data(),
                    gradients(part, DenseTensorId::projections));
  norm_back(part, DenseTensorId::attention_norm, kept.x, dn, by_x);
  entering_[{m, layer, BlockKind::attention, Pass::backward}] = by_x;
}

void ReferenceIteration::ffn(const StagePart& part, std::int64_t width, DenseTensorId fc1,
                             DenseTensorId fc2, const Doubles& in, Doubles& out, Ffn& kept) {
  const std::int64_t up = up_columns(model_, width);
  kept.h.resize(all(up));
  kept.a.resize(all(width));
  add_product(tokens(), up, model_.hidden, in.data(), weights(part, fc1), kept.h.data());
  for (std::int64_t t = 0; t < tokens(); ++t) {
    activate(width, gated_, kept.h.data() + t * up, kept.a.data() + t * width);
  }
  add_product(tokens(), model_.hidden, width, kept.a.data(), weights(part, fc2), out.data());
}

void ReferenceIteration::ffn_back(const StagePart& part, std::int64_t width, DenseTensorId fc1,
                                  DenseTensorId fc2, const Doubles& in, const Doubles& dout,
                                  const Ffn& kept, Doubles& by_in) {
  const std::int64_t up = up_columns(model_, width);
  Doubles da(kept.a.size()), dh(kept.h.size());
  add_product_transposed(tokens(), width, model_.hidden, dout.data(), weights(part, fc2),
                         da.data());
  add_outer_product(tokens(), model_.hidden, width, kept.a.data(), dout.data(),
                    gradients(part, fc2));
  for (std::int64_t t = 0; t < tokens(); ++t) {
    activate_gradient(width, gated_, kept.h.data() + t * up, da.data() + t * width,
                      dh.data() + t * up);
  }
  add_product_transposed(tokens(), model_.hidden, up, dh.data(), weights(part, fc1), by_in.data());
  add_outer_product(tokens(), up, model_.hidden, in.data(), dh.data(), gradients(part, fc1));
}

void ReferenceIteration::mlp(int m, int layer, Doubles& x, Experts& kept) {
  const StagePart part = part_of_layer(layer);
  const bool moe = model_.is_moe_layer(layer);
  entering_[{m, layer, moe ? BlockKind::moe : BlockKind::dense_ffn, Pass::forward}] = kept.x = x;
  kept.n = normed(part, DenseTensorId::ffn_norm, x);
  if (!moe) {
    return ffn(part, model_.dense_ffn, DenseTensorId::dense_fc1, DenseTensorId::dense_fc2, kept.n,
               x, kept.dense);
  }
  if (const std::int64_t width = shared_width(model_); width > 0) {
    ffn(part, width, DenseTensorId::shared_fc1, DenseTensorId::shared_fc2, kept.n, x, kept.dense);
  }
  experts(*routing_.at({m, layer}), layer, kept.n, x, kept);
}

void ReferenceIteration::mlp_back(int m, int layer, Doubles& by_x, const Experts& kept) {
  const StagePart part = part_of_layer(layer);
  const bool moe = model_.is_moe_layer(layer);
  Doubles dn(kept.n.size());
  if (!moe) {
    ffn_back(part, model_.dense_ffn, DenseTensorId::dense_fc1, DenseTensorId::dense_fc2, kept.n,
             by_x, kept.dense, dn);
  } else {
    if (const std::int64_t width = shared_width(model_); width > 0) {
      ffn_back(part, width, DenseTensorId::shared_fc1, DenseTensorId::shared_fc2, kept.n, by_x,
               kept.dense, dn);
    }
    experts_back(*routing_.at({m, layer}), layer, kept.n, by_x, kept, dn);
  }
  norm_back(part, DenseTensorId::ffn_norm, kept.x, dn, by_x);
  entering_[{m, layer, moe ? BlockKind::moe : BlockKind::dense_ffn, Pass::backward}] = by_x;
}

void ReferenceIteration::experts(const RoutedLayer& routing, int layer, const Doubles& in,
                                 Doubles& out, Experts& kept) {
  const std::int64_t hidden = model_.hidden, ffn = model_.expert_ffn;
  const std::int64_t up = up_columns(model_, ffn);
  kept.choice.resize(routing.expert.size());
  for (ChoiceId choice(0); choice.index() < routing.expert.size(); ++choice.value) {
    if (routing.dropped(choice)) continue;
    const double* weights = expert(layer, routing.expert[choice.index()]).weights.data();
    const std::int64_t at = routing.token_of(choice).value * hidden;
    Ffn& made = kept.choice[choice.index()];
    made.h.assign(static_cast<std::size_t>(up), 0);
    made.a.assign(static_cast<std::size_t>(ffn), 0);
    add_product(1, up, hidden, in.data() + at, weights, made.h.data());
    activate(ffn, gated_, made.h.data(), made.a.data());
    Doubles y(static_cast<std::size_t>(hidden));
    add_product(1, hidden, ffn, made.a.data(), weights + hidden * up, y.data());
    const auto weight = static_cast<double>(routing.weight[choice.index()]);
    for (std::int64_t c = 0; c < hidden; ++c) {
      out[static_cast<std::size_t>(at + c)] += weight * y[static_cast<std::size_t>(c)];
    }
  }
}

void ReferenceIteration::experts_back(const RoutedLayer& routing, int layer, const Doubles& in,
                                      const Doubles& dout, const Experts& kept, Doubles& by_in) {
  const std::int64_t hidden = model_.hidden, ffn = model_.expert_ffn;
  const std::int64_t up = up_columns(model_, ffn);
  for (ChoiceId choice(0); choice.index() < routing.expert.size(); ++choice.value) {
    if (routing.dropped(choice)) continue;
    TrainedTensor& tensor = expert(layer, routing.expert[choice.index()]);
    const double *w1 = tensor.weights.data(), *w2 = w1 + hidden * up;
    double *g1 = tensor.gradients.data(), *g2 = g1 + hidden * up;
    const std::int64_t at = routing.token_of(choice).value * hidden;
    const Ffn& made = kept.choice[choice.index()];
    Doubles dy(dout.begin() + at, dout.begin() + at + hidden);
    for (double& value : dy) value *= static_cast<double>(routing.weight[choice.index()]);
    Doubles da(made.a.size()), dh(made.h.size());
    add_product_transposed(1, ffn, hidden, dy.data(), w2, da.data());
    add_outer_product(1, hidden, ffn, made.a.data(), dy.data(), g2);
    activate_gradient(ffn, gated_, made.h.data(), da.data(), dh.data());
    add_product_transposed(1, hidden, up, dh.data(), w1, by_in.data() + at);
    add_outer_product(1, up, hidden, in.data() + at, dh.data(), g1);
  }
}

}  // namespace moesim
