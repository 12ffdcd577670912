// SPDX-License-Identifier: Apache-2.0
#include "sim/serving/engine/batch_shape.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace moesim {
namespace {

/// Sums of one kind of entry.
struct RankSums {
  double all = 0, weighed_context = 0, weighed_length = 0, fullest = 0, own = 0;

  void add(double amount, const SequenceStep& step) {
    all += amount;
    own += amount;
    weighed_context += amount * static_cast<double>(step.context);
    weighed_length += amount * static_cast<double>(step.tokens);
  }
  void end_rank() {
    fullest = std::max(fullest, own);
    own = 0;
  }
  double context() const { return all > 0 ? weighed_context / all : 0; }
  /// Of the fullest rank.
  double count() const { return all > 0 ? fullest * all / weighed_length : 0; }
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

/// [prompt] tokens of a rank's prompts, of about that length each, but no fewer than `least`.
std::vector<std::int64_t> prompts_of(std::int64_t tokens, double length, std::int64_t least) {
  if (tokens == 0) return {};
  const std::int64_t most = std::max<std::int64_t>(1, tokens / least);
  const double asked = length > 0 ? static_cast<double>(tokens) / length : 1;
  const std::int64_t count = std::clamp<std::int64_t>(std::llround(asked), 1, most);
  std::vector<std::int64_t> each;
  for (std::int64_t i = 0; i < count; ++i) {
    each.push_back(tokens * (i + 1) / count - tokens * i / count);
  }
  return each;
}

}  // namespace

BatchShape shape_of(const ServingBatch& batch, std::int64_t decode_tokens) {
  RankSums decodes, prompts;
  for (const auto& steps : batch.ranks) {
    for (const SequenceStep& step : steps) {
      const auto count = static_cast<double>(step.count);
      if (step.tokens <= decode_tokens) {
        decodes.add(count, step);
      } else {
        prompts.add(count * static_cast<double>(step.tokens), step);
      }
    }
    decodes.end_rank();
    prompts.end_rank();
  }
  const std::size_t ranks = batch.ranks.size();
  return {decodes.all,       decodes.context(),   decodes.skew(ranks), prompts.all,
          prompts.context(), prompts.skew(ranks), prompts.count()};
}

ServingBatch batch_of(const BatchShape& shape, const PassRanks& ranks, std::int64_t decode_tokens) {
  const auto decodes =
      spread_over(axis(shape, ShapeAxis::sequences), axis(shape, ShapeAxis::skew), ranks.count);
  const auto prompts = spread_over(axis(shape, ShapeAxis::prompt_tokens),
                                   axis(shape, ShapeAxis::prompt_skew), ranks.count);
  // A decode has a context: without one it would be a prompt.
  const std::int64_t context =
      std::max<std::int64_t>(1, std::llround(axis(shape, ShapeAxis::context)));
  const std::int64_t prompt_context = std::llround(axis(shape, ShapeAxis::prompt_context));
  const double length =
      static_cast<double>(prompts[0]) / std::max(1.0, axis(shape, ShapeAxis::prompts));
  const bool any_prompts = axis(shape, ShapeAxis::prompt_tokens) > 0;
  ServingBatch batch;
  batch.ranks.resize(ranks.count);
  std::int64_t request = 0;
  for (std::size_t rank = 0; rank < ranks.count; ++rank) {
    auto& steps = batch.ranks[rank];
    for (std::int64_t i = 0; i < decodes[rank]; ++i) {
      steps.push_back({context, decode_tokens, 1, request++});
    }
    for (const std::int64_t tokens : prompts_of(prompts[rank], length, decode_tokens + 1)) {
      steps.push_back({prompt_context, tokens, 1, request++});
    }
    if (steps.empty() && ranks.all_join) {
      steps.push_back({1, any_prompts ? 1 : decode_tokens, 1, -1});
    }
  }
  return batch;
}

}  // namespace moesim
