// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>

#include "realhw/core/expert_shape.h"
#include "realhw/core/reference_kept.h"

namespace moesim {
namespace {

StagePart layer_part(int number) { return {StagePartKind::layer, number}; }
constexpr StagePart embedding_part{StagePartKind::embedding, 0};
constexpr StagePart head_part{StagePartKind::head, 0};

TrainedTensor trained(const std::vector<float>& weights, std::uint64_t seed) {
  std::vector<float> first(weights.size()), second(weights.size());
  DenseTensors::fill_moments(seed, first, second);
  return {Doubles(weights.begin(), weights.end()),
          Doubles(weights.size()),
          Doubles(first.begin(), first.end()),
          Doubles(second.begin(), second.end()),
          {}};
}

}  // namespace

ReferenceIteration::ReferenceIteration(const HeldIteration& held,
                                       const std::vector<RoutedLayer>& layers)
    : held_(held),
      model_(held.model),
      heads_(heads_of(held.model)),
      gated_(held.model.expert_matrices == 3) {
  for (const RoutedLayer& layer : layers) routing_[{layer.microbatch, layer.number}] = &layer;
  add_part(embedding_part);
  add_part(head_part);
  for (int layer = 0; layer < model_.layers; ++layer) {
    add_part(layer_part(layer));
    if (!model_.is_moe_layer(layer)) continue;
    for (ExpertId e(0); e.value < model_.experts; ++e.value) {
      ExpertWeights made(ExpertShape(model_), layer, e);
      made.w1.insert(made.w1.end(), made.w2.begin(), made.w2.end());
      experts_[{layer, e}] = trained(made.w1, expert_seed(layer, e));
    }
  }
}

void ReferenceIteration::add_part(const StagePart& part) {
  const auto& layout = layout_.try_emplace({part.kind, part.number}, model_, part).first->second;
  dense_[{part.kind, part.number}] = trained(layout.initial(), layout.seed());
}

double* ReferenceIteration::weights(const StagePart& part, DenseTensorId id) {
  return dense(part).weights.data() + layout_.at({part.kind, part.number})[id].offset;
}

double* ReferenceIteration::gradients(const StagePart& part, DenseTensorId id) {
  return dense(part).gradients.data() + layout_.at({part.kind, part.number})[id].offset;
}

void ReferenceIteration::run() {
  compute_gradients();
  update();
}

void ReferenceIteration::compute_gradients() {
  entering_.clear();
  losses_.clear();
  for (auto& [key, tensor] : dense_) std::ranges::fill(tensor.gradients, 0.0);
  for (auto& [key, tensor] : experts_) std::ranges::fill(tensor.gradients, 0.0);
  for (int m = 0; m < held_.microbatches; ++m) run_microbatch(m);
}

void ReferenceIteration::update() {
  const AdamRule rule;
  const auto update_all = [&](auto& tensors) {
    for (auto& [key, t] : tensors) {
      t.before = t.weights;
      adam(rule, std::ssize(t.weights), t.gradients.data(), t.first.data(), t.second.data(),
           t.weights.data());
    }
  };
  update_all(dense_);
  update_all(experts_);
}

double ReferenceIteration::loss() const {
  double sum = 0;
  for (const auto& [m, of_microbatch] : losses_) {
    sum += std::accumulate(of_microbatch.begin(), of_microbatch.end(), 0.0);
  }
  return sum / static_cast<double>(tokens() * held_.microbatches);
}

void ReferenceIteration::run_microbatch(int m) {
  Doubles x = embed(m);
  std::vector<Attention> attentions(static_cast<std::size_t>(model_.layers));
  std::vector<Experts> experts(attentions.size());
  for (int layer = 0; layer < model_.layers; ++layer) {
    attention(m, layer, x, attentions[static_cast<std::size_t>(layer)]);
    mlp(m, layer, x, experts[static_cast<std::size_t>(layer)]);
  }
  Doubles by_x = head(m, x);
  for (int layer = model_.layers; layer-- > 0;) {
    mlp_back(m, layer, by_x, experts[static_cast<std::size_t>(layer)]);
    attention_back(m, layer, by_x, attentions[static_cast<std::size_t>(layer)]);
  }
  embed_back(m, by_x);
}

Doubles ReferenceIteration::embed(int m) {
  Doubles x;
  for (std::int64_t t = 0; t < tokens(); ++t) {
    const std::int64_t word = word_at(model_.vocabulary, m, t / held_.rows(), t % held_.rows());
    const double* row = weights(embedding_part, DenseTensorId::embedding) + word * model_.hidden;
    x.insert(x.end(), row, row + model_.hidden);
  }
  return x;
}

void ReferenceIteration::embed_back(int m, const Doubles& by_x) {
  double* table = gradients(embedding_part, DenseTensorId::embedding);
  for (std::int64_t t = 0; t < tokens(); ++t) {
    const std::int64_t word = word_at(model_.vocabulary, m, t / held_.rows(), t % held_.rows());
    for (int c = 0; c < model_.hidden; ++c) {
      table[word * model_.hidden + c] += by_x[static_cast<std::size_t>(t * model_.hidden + c)];
    }
  }
}

Doubles ReferenceIteration::normed(const StagePart& part, DenseTensorId gain, const Doubles& x) {
  Doubles out(x.size());
  const double* g = weights(part, gain);
  for (std::size_t at = 0; at < x.size(); at += static_cast<std::size_t>(model_.hidden)) {
    rms_norm(model_.hidden, x.data() + at, g, out.data() + at);
  }
  return out;
}

void ReferenceIteration::norm_back(const StagePart& part, DenseTensorId gain, const Doubles& x,
                                   const Doubles& dout, Doubles& by_x) {
  Doubles dx(static_cast<std::size_t>(model_.hidden));
  for (std::size_t at = 0; at < x.size(); at += dx.size()) {
    rms_norm_gradient(model_.hidden, x.data() + at, weights(part, gain), dout.data() + at,
                      dx.data(), gradients(part, gain));
    for (std::size_t c = 0; c < dx.size(); ++c) by_x[at + c] += dx[c];
  }
}

Doubles ReferenceIteration::head(int m, const Doubles& x) {
  const std::int64_t words = model_.vocabulary;
  entering_[{m, model_.layers, BlockKind::head, Pass::forward}] = x;
  const Doubles n = normed(head_part, DenseTensorId::head_norm, x);
  Doubles logits(all(words)), dn(n.size()), by_x(x.size());
  add_product(tokens(), words, model_.hidden, n.data(), weights(head_part, DenseTensorId::head),
              logits.data());
  Doubles& losses = losses_[m];
  Doubles shares(static_cast<std::size_t>(words));
  const double share = 1.0 / static_cast<double>(tokens() * held_.microbatches);
  for (std::int64_t t = 0; t < tokens(); ++t) {
    const std::int64_t label = word_at(words, m, t / held_.rows(), t % held_.rows() + 1);
    double* row = logits.data() + t * words;
    losses.push_back(cross_entropy(words, row, label, shares.data()));
    for (std::int64_t w = 0; w < words; ++w) {
      row[w] = (shares[static_cast<std::size_t>(w)] - (w == label ? 1 : 0)) * share;
    }
  }
  add_product_transposed(tokens(), model_.hidden, words, logits.data(),
                         weights(head_part, DenseTensorId::head), dn.data());
  add_outer_product(tokens(), words, model_.hidden, n.data(), logits.data(),
                    gradients(head_part, DenseTensorId::head));
  norm_back(head_part, DenseTensorId::head_norm, x, dn, by_x);
  entering_[{m, model_.layers, BlockKind::head, Pass::backward}] = by_x;
  return by_x;
}

}  // namespace moesim
