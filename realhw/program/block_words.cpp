// SPDX-License-Identifier: Apache-2.0
// Embedding and loss: the blocks that know words, which a tensor group divides.
#include <algorithm>

#include "realhw/program/block_kept.h"

namespace moesim {

std::int64_t BlockProgram::word(std::int64_t row) const {
  return word_at(held_.model.vocabulary, microbatch_, parameters_.replica(), row);
}

std::int64_t BlockProgram::own_word(std::int64_t row) const {
  const std::int64_t words = of_group(held_.model.vocabulary);
  const std::int64_t own = word(row) - parameters_.share().part * words;
  return own < words ? std::max<std::int64_t>(own, -1) : -1;
}

void BlockProgram::add_loss(RankStep& step, Kept& k, bool gradient) {
  const std::int64_t words = of_group(held_.model.vocabulary), rows = held_.rows();
  std::vector<std::int64_t> labels;
  for (std::int64_t row = 0; row < rows; ++row) labels.push_back(own_word(row + 1));
  if (gradient) {
    k.dh = make(step, "gradient of the logits", rows, words);
    const auto weight =
        static_cast<float>(1.0 / static_cast<double>(rows * held_.replicas() * held_.microbatches));
    step.before.emplace_back(CrossEntropy{
        true, words, std::move(labels), weight, {}, take(k.shares, step), {}, k.dh.at});
    return check(step, k.dh);
  }
  k.shares = make(step, "shares", rows, words);
  k.losses = make(step, "losses", rows, 1);
  const Place logits = take(k.h, step), shares = k.shares.at, losses = k.losses.at;
  if (held_.tp == 1) {
    step.before.emplace_back(
        CrossEntropy{false, words, std::move(labels), 1, logits, shares, losses, {}});
  } else {
    step.before.emplace_back(DividedEntropy{true, words, std::move(labels), held_.tp, logits,
                                            take(k.sums, step), shares, losses});
  }
  draft_.program.iteration->losses.push_back({microbatch_, k.losses.at});
  check(step, k.shares);
}

/// Words of other ranks are rows of zeros.
void BlockProgram::look_up(RankStep& step, DenseBuffers& held, const RowMatrix& to) {
  const Place table = take(held, held.weight(DenseTensorId::embedding), step);
  RowSums sums{to.width, {}, {0}, {}};
  for (std::int64_t row = 0; row < to.rows; ++row) {
    sums.to.push_back({to.at.buffer, to.at.offset + row * to.width * float_bytes});
    const std::int64_t at = own_word(row);
    if (at >= 0) sums.terms.push_back({{table.buffer, table.offset + at * to.width * float_bytes}});
    sums.first.push_back(static_cast<std::uint32_t>(sums.terms.size()));
  }
  step.before.emplace_back(std::move(sums));
  check(step, to);
}

/// What the first layer, which adds up nothing by itself, leaves is added up here, if not before it
/// was gathered.
void BlockProgram::add_embedding_gradient(RankStep& step, DenseBuffers& held) {
  if (held_.tp == 1) {
    settle(Pass::backward, step);
    record(0, BlockKind::attention, Pass::backward, whole(Pass::backward));
  }
  const RowMatrix dx = gradient_of_product(kept(0, BlockKind::embedding));
  const Place table = held.gradient(DenseTensorId::embedding), from = take(dx, step);
  AddValues call;
  for (std::int64_t row = 0; row < dx.rows; ++row) {
    const std::int64_t at = own_word(row);
    if (at < 0) continue;
    call.ranges.push_back({{from.buffer, from.offset + row * dx.width * float_bytes},
                           {table.buffer, table.offset + at * dx.width * float_bytes},
                           dx.width});
  }
  step.before.emplace_back(std::move(call));
  held.ops.added.push_back(step.op);
}

void BlockProgram::exchange_sums_of_loss(RankStep& step, Kept& k) {
  k.sums = make(step, "sums of the loss", k.h.rows * held_.tp, entropy_sums);
  std::vector<std::int64_t> labels;
  for (std::int64_t row = 0; row < k.h.rows; ++row) labels.push_back(own_word(row + 1));
  step.before.emplace_back(DividedEntropy{false,
                                          k.h.width,
                                          std::move(labels),
                                          held_.tp,
                                          take(k.h, step),
                                          part_of_group(k.sums, parameters_.share().part),
                                          {},
                                          {}});
  exchange_parts(step, RingKind::all_gather, k.sums);
  check(step, k.sums);
}

}  // namespace moesim
