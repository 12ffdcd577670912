// SPDX-License-Identifier: Apache-2.0
// The arithmetic of the dense parts of a model, one row or sequence at a time: what devices compute
// in float32 and the reference in double precision. Finite differences check the gradients.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace moesim {

inline constexpr double norm_epsilon = 1e-6;

template <class Float>
Float inverse_rms(std::int64_t width, const Float* x) {
  Float squares = 0;
  for (std::int64_t c = 0; c < width; ++c) squares += x[c] * x[c];
  return 1 / std::sqrt(squares / static_cast<Float>(width) + static_cast<Float>(norm_epsilon));
}

/// out = gain * x / sqrt(mean(x^2) + epsilon).
template <class Float>
void rms_norm(std::int64_t width, const Float* x, const Float* gain, Float* out) {
  const Float scale = inverse_rms(width, x);
  for (std::int64_t c = 0; c < width; ++c) out[c] = x[c] * scale * gain[c];
}

/// Writes the gradient by x, adds that by the gain.
template <class Float>
void rms_norm_gradient(std::int64_t width, const Float* x, const Float* gain, const Float* dout,
                       Float* dx, Float* dgain) {
  const Float scale = inverse_rms(width, x);
  Float along = 0;
  for (std::int64_t c = 0; c < width; ++c) along += dout[c] * gain[c] * x[c];
  along *= scale * scale / static_cast<Float>(width);
  for (std::int64_t c = 0; c < width; ++c) {
    dgain[c] += dout[c] * x[c] * scale;
    dx[c] = scale * (gain[c] * dout[c] - x[c] * along);
  }
}

/// Turns the pairs (i, i + dim / 2) of a head by position x 10000^(-2 i / dim) (arXiv 2104.09864);
/// `way` -1 turns back, which is its gradient.
template <class Float>
void rotate_head(std::int64_t dim, std::int64_t position, int way, const Float* in, Float* out) {
  const std::int64_t half = dim / 2;
  for (std::int64_t i = 0; i < half; ++i) {
    const double speed =
        std::pow(10000.0, -2.0 * static_cast<double>(i) / static_cast<double>(dim));
    const double angle = static_cast<double>(position) * speed * way;
    const auto cosine = static_cast<Float>(std::cos(angle));
    const auto sine = static_cast<Float>(std::sin(angle));
    const Float a = in[i], b = in[i + half];
    out[i] = a * cosine - b * sine;
    out[i + half] = a * sine + b * cosine;
  }
  if (dim % 2 != 0) out[dim - 1] = in[dim - 1];
}

/// Heads of grouped queries: a row holds all queries, then all keys, then all values.
struct HeadShape {
  std::int64_t heads = 0, kv_heads = 0, dim = 0;
  constexpr std::int64_t width() const { return (heads + 2 * kv_heads) * dim; }
  constexpr std::int64_t out_width() const { return heads * dim; }
  constexpr std::int64_t key(std::int64_t head) const {
    return (heads + head * kv_heads / heads) * dim;
  }
  constexpr std::int64_t value(std::int64_t head) const { return key(head) + kv_heads * dim; }
  bool operator==(const HeadShape&) const = default;
};

/// What query i of a head gives keys 0 to i: softmax of the products / sqrt(dim).
template <class Float>
void attend(const HeadShape& shape, std::int64_t head, std::int64_t i, const Float* rows,
            std::vector<Float>& share) {
  const auto dim = shape.dim;
  const Float* query = rows + i * shape.width() + head * dim;
  const Float factor = 1 / std::sqrt(static_cast<Float>(dim));
  share.assign(static_cast<std::size_t>(i + 1), 0);
  Float most = -HUGE_VALF, sum = 0;
  for (std::int64_t j = 0; j <= i; ++j) {
    const Float* key = rows + j * shape.width() + shape.key(head);
    Float score = 0;
    for (std::int64_t d = 0; d < dim; ++d) score += query[d] * key[d];
    share[static_cast<std::size_t>(j)] = score * factor;
    most = std::max(most, score * factor);
  }
  for (Float& s : share) sum += s = std::exp(s - most);
  for (Float& s : share) s /= sum;
}

/// Causal attention of one sequence: out[tokens x heads x dim].
template <class Float>
void causal_attention(const HeadShape& shape, std::int64_t tokens, const Float* rows, Float* out) {
  std::vector<Float> share;
  std::fill(out, out + tokens * shape.out_width(), Float{0});
  for (std::int64_t head = 0; head < shape.heads; ++head) {
    for (std::int64_t i = 0; i < tokens; ++i) {
      attend(shape, head, i, rows, share);
      Float* to = out + i * shape.out_width() + head * shape.dim;
      for (std::int64_t j = 0; j <= i; ++j) {
        const Float* value = rows + j * shape.width() + shape.value(head);
        const Float s = share[static_cast<std::size_t>(j)];
        for (std::int64_t d = 0; d < shape.dim; ++d) to[d] += s * value[d];
      }
    }
  }
}

/// The gradient by queries, keys and values from that by the output.
template <class Float>
void causal_attention_gradient(const HeadShape& shape, std::int64_t tokens, const Float* rows,
                               const Float* dout, Float* drows) {
  std::vector<Float> share, by_share;
  std::fill(drows, drows + tokens * shape.width(), Float{0});
  const Float factor = 1 / std::sqrt(static_cast<Float>(shape.dim));
  for (std::int64_t head = 0; head < shape.heads; ++head) {
    for (std::int64_t i = 0; i < tokens; ++i) {
      attend(shape, head, i, rows, share);
      const Float* from = dout + i * shape.out_width() + head * shape.dim;
      const Float* query = rows + i * shape.width() + head * shape.dim;
      Float* dquery = drows + i * shape.width() + head * shape.dim;
      by_share.assign(share.size(), 0);
      Float mean = 0;
      for (std::int64_t j = 0; j <= i; ++j) {
        const auto n = static_cast<std::size_t>(j);
        const Float* value = rows + j * shape.width() + shape.value(head);
        Float* dvalue = drows + j * shape.width() + shape.value(head);
        for (std::int64_t d = 0; d < shape.dim; ++d) {
          by_share[n] += from[d] * value[d];
          dvalue[d] += share[n] * from[d];
        }
        mean += share[n] * by_share[n];
      }
      for (std::int64_t j = 0; j <= i; ++j) {
        const auto n = static_cast<std::size_t>(j);
        const Float dscore = share[n] * (by_share[n] - mean) * factor;
        const Float* key = rows + j * shape.width() + shape.key(head);
        Float* dkey = drows + j * shape.width() + shape.key(head);
        for (std::int64_t d = 0; d < shape.dim; ++d) {
          dquery[d] += dscore * key[d];
          dkey[d] += dscore * query[d];
        }
      }
    }
  }
}

/// Probabilities of the words, and the cross entropy of the label: -log of its own.
template <class Float>
Float cross_entropy(std::int64_t words, const Float* logits, std::int64_t label, Float* shares) {
  const Float most = *std::max_element(logits, logits + words);
  Float sum = 0;
  for (std::int64_t w = 0; w < words; ++w) sum += shares[w] = std::exp(logits[w] - most);
  for (std::int64_t w = 0; w < words; ++w) shares[w] /= sum;
  return std::log(sum) + most - logits[label];
}

/// The same of words that a tensor group divides: of each member's words the largest logit, the sum
/// of the exponentials behind it, and the label's logit (0 if it is another's: label < 0).
inline constexpr std::int64_t entropy_sums = 3;

template <class Float>
void entropy_of_part(std::int64_t words, const Float* logits, std::int64_t label, Float* sums) {
  const Float most = *std::max_element(logits, logits + words);
  Float sum = 0;
  for (std::int64_t w = 0; w < words; ++w) sum += std::exp(logits[w] - most);
  sums[0] = most;
  sums[1] = sum;
  sums[2] = label < 0 ? Float{0} : logits[label];
}

/// Probabilities of a member's words, and the loss; sums of the members lie `stride` apart.
template <class Float>
Float joined_entropy(std::int64_t parts, std::int64_t stride, const Float* sums, std::int64_t words,
                     const Float* logits, Float* shares) {
  Float most = sums[0], sum = 0, label = 0;
  for (std::int64_t p = 1; p < parts; ++p) most = std::max(most, sums[p * stride]);
  for (std::int64_t p = 0; p < parts; ++p) {
    sum += sums[p * stride + 1] * std::exp(sums[p * stride] - most);
    label += sums[p * stride + 2];
  }
  for (std::int64_t w = 0; w < words; ++w) shares[w] = std::exp(logits[w] - most) / sum;
  return std::log(sum) + most - label;
}

/// Adam (arXiv 1412.6980) as after `steps` steps: whoever computes an iteration begins in the
/// middle of a training, where a gradient near 0 does not decide on a whole step.
struct AdamRule {
  double rate = 1e-2, first_decay = 0.9, second_decay = 0.999, epsilon = 1e-8;
  double first_correction() const { return 1 - std::pow(first_decay, steps); }
  double second_correction() const { return 1 - std::pow(second_decay, steps); }
  int steps = 100;
};

template <class Float>
void adam(const AdamRule& rule, std::int64_t count, const Float* gradient, Float* first,
          Float* second, Float* weight) {
  const auto b1 = static_cast<Float>(rule.first_decay), b2 = static_cast<Float>(rule.second_decay);
  const auto c1 = static_cast<Float>(rule.rate / rule.first_correction());
  const auto c2 = static_cast<Float>(1 / rule.second_correction());
  const auto epsilon = static_cast<Float>(rule.epsilon);
  for (std::int64_t i = 0; i < count; ++i) {
    first[i] = b1 * first[i] + (1 - b1) * gradient[i];
    second[i] = b2 * second[i] + (1 - b2) * gradient[i] * gradient[i];
    weight[i] -= c1 * first[i] / (std::sqrt(second[i] * c2) + epsilon);
  }
}

}  // namespace moesim
