// SPDX-License-Identifier: Apache-2.0
#include "sim/serving/engine/batch_shape.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace moesim {
namespace {

/// Sums of one kind of entry.
struct RankSums {
  double all = 0, weighed_context = 0, fullest = 0, own = 0;

  void add(double amount, double context) {
    all += amount;
    own += amount;
    weighed_context += amount * context;
  }
  void end_rank() {
    fullest = std::max(fullest, own);
    own = 0;
  }
  double context() const { return all > 0 ? weighed_context / all : 0; }
  double skew(std::size_t ranks) const {
    return all > 0 ? fullest * static_cast<double>(ranks) / all : 1;
  }
};

double axis(const BatchShape& shape, ShapeAxis of) { return shape[static_cast<std::size_t>(of)]; }

/// [rank] whole numbers with that sum: the first has `skew` times the mean, the others share the
/// rest.
std::vector<std::int64_t> spread_over(double sum, double skew, std::size_t ranks) {
  const std::int64_t all = std::llround(sum);
  std::vector<std::int64_t> of(ranks, 0);
  of[0] = ranks == 1 ? all
                     : std::clamp<std::int64_t>(
                           std::llround(sum * skew / static_cast<double>(ranks)), 0, all);
  const std::int64_t rest = all - of[0];
  const auto others = static_cast<std::int64_t>(ranks) - 1;
  for (std::int64_t i = 0; i < others; ++i) {
    of[static_cast<std::size_t>(i) + 1] = rest * (i + 1) / others - rest * i / others;
  }
  return of;
}

}  // namespace

BatchShape shape_of(const ServingBatch& batch, std::int64_t decode_tokens) {
  RankSums decodes, prompts;
  for (const auto& steps : batch.ranks) {
    for (const SequenceStep& step : steps) {
      const auto count = static_cast<double>(step.count), tokens = static_cast<double>(step.tokens);
      const auto context = static_cast<double>(step.context);
      if (step.tokens <= decode_tokens) {
        decodes.add(count, context);
      } else {
        prompts.add(count * tokens, context);
      }
    }
    decodes.end_rank();
    prompts.end_rank();
  }
  const std::size_t ranks = batch.ranks.size();
  return {decodes.all, decodes.context(), decodes.skew(ranks),
          prompts.all, prompts.context(), prompts.skew(ranks)};
}

ServingBatch batch_of(const BatchShape& shape, std::size_t ranks, std::int64_t decode_tokens) {
  const auto decodes =
      spread_over(axis(shape, ShapeAxis::sequences), axis(shape, ShapeAxis::skew), ranks);
  const auto prompts = spread_over(axis(shape, ShapeAxis::prompt_tokens),
                                   axis(shape, ShapeAxis::prompt_skew), ranks);
  // A decode has a context: without one it would be a prompt.
  const std::int64_t context =
      std::max<std::int64_t>(1, std::llround(axis(shape, ShapeAxis::context)));
  const std::int64_t prompt_context = std::llround(axis(shape, ShapeAxis::prompt_context));
  ServingBatch batch;
  batch.ranks.resize(ranks);
  std::int64_t request = 0;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    auto& steps = batch.ranks[rank];
    for (std::int64_t i = 0; i < decodes[rank]; ++i) {
      steps.push_back({context, decode_tokens, 1, request++});
    }
    if (prompts[rank] > 0) steps.push_back({prompt_context, prompts[rank], 1, request++});
  }
  return batch;
}

}  // namespace moesim
