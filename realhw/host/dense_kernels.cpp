// SPDX-License-Identifier: Apache-2.0
#include "realhw/host/dense_kernels.h"

namespace moesim {
namespace {

using At = std::function<float*(Place)>;

void run_one(const RowNorm& call, const At& at) {
  for (const RowNorm::Range& range : call.ranges) {
    const float *x = at(range.x), *gain = at(range.gain);
    for (std::int64_t row = 0; row < range.rows; ++row) {
      const std::int64_t first = row * range.stride;
      if (call.gradient) {
        rms_norm_gradient(call.width, x + first, gain, at(range.dout) + first, at(range.dx) + first,
                          at(range.dgain));
      } else {
        rms_norm(call.width, x + first, gain, at(range.out) + first);
      }
    }
  }
}

void run_one(const Rotary& call, const At& at) {
  const HeadShape& heads = call.heads;
  for (std::int64_t row = 0; row < call.rows; ++row) {
    const float* from = at(call.from) + row * heads.width();
    float* to = at(call.to) + row * heads.width();
    const std::int64_t turned = heads.heads + heads.kv_heads;
    for (std::int64_t head = 0; head < turned; ++head) {
      rotate_head(heads.dim, row % call.sequence, call.way, from + head * heads.dim,
                  to + head * heads.dim);
    }
    std::copy(from + turned * heads.dim, from + heads.width(), to + turned * heads.dim);
  }
}

void run_one(const CausalAttention& call, const At& at) {
  for (std::int64_t s = 0; s < call.sequences; ++s) {
    const std::int64_t rows = s * call.sequence * call.heads.width();
    const std::int64_t out = s * call.sequence * call.heads.out_width();
    if (call.gradient) {
      causal_attention_gradient(call.heads, call.sequence, at(call.rows) + rows,
                                at(call.dout) + out, at(call.drows) + rows);
    } else {
      causal_attention(call.heads, call.sequence, at(call.rows) + rows, at(call.out) + out);
    }
  }
}

void run_one(const CrossEntropy& call, const At& at) {
  for (std::size_t row = 0; row < call.labels.size(); ++row) {
    const std::int64_t first = static_cast<std::int64_t>(row) * call.words;
    float* shares = at(call.shares) + first;
    if (!call.gradient) {
      at(call.losses)[row] =
          cross_entropy(call.words, at(call.logits) + first, call.labels[row], shares);
      continue;
    }
    float* gradient = at(call.dlogits) + first;
    for (std::int64_t w = 0; w < call.words; ++w) {
      gradient[w] = (shares[w] - (w == call.labels[row] ? 1.0f : 0.0f)) * call.weight;
    }
  }
}

void run_one(const DividedEntropy& call, const At& at) {
  const std::int64_t rows = std::ssize(call.labels);
  for (std::int64_t row = 0; row < rows; ++row) {
    const float* logits = at(call.logits) + row * call.words;
    float* sums = at(call.sums) + row * entropy_sums;
    if (!call.joined) {
      entropy_of_part(call.words, logits, call.labels[static_cast<std::size_t>(row)], sums);
      continue;
    }
    at(call.losses)[row] = joined_entropy(call.parts, rows * entropy_sums, sums, call.words, logits,
                                          at(call.shares) + row * call.words);
  }
}

void run_one(const AddValues& call, const At& at) {
  for (const AddValues::Range& range : call.ranges) {
    const float* from = at(range.from);
    float* to = at(range.to);
    for (std::int64_t i = 0; i < range.elements; ++i) to[i] += from[i];
  }
}

void run_one(const AdamUpdate& call, const At& at) {
  for (const AdamUpdate::Range& range : call.ranges) {
    adam(call.rule, range.elements, at(range.gradients), at(range.first), at(range.second),
         at(range.weights));
  }
}

}  // namespace

void run_dense(const DenseCall& call, const std::function<float*(Place)>& at) {
  std::visit([&](const auto& one) { run_one(one, at); }, call);
}

}  // namespace moesim
