// SPDX-License-Identifier: Apache-2.0
#include "sim/planner/iteration/serving_batches.h"

#include <fmt/format.h>

#include <algorithm>

namespace moesim {
namespace {

/// A step's sequences by their first tokens.
class RecordedSequences {
 public:
  explicit RecordedSequences(const TraceStep& step) : lengths_(step.sequence_lengths()) {
    std::int64_t first = 0;
    for (const std::int32_t length : lengths_) {
      firsts_.push_back(first);
      first += length;
    }
  }

  /// Appends `tokens` tokens of sequence k, from a position on.
  void append(std::int64_t k, std::int64_t position, std::int64_t tokens,
              std::vector<TokenRun>& runs) const {
    const auto all = static_cast<std::int64_t>(firsts_.size());
    const auto s = static_cast<std::size_t>(k % all);
    const std::int64_t length = lengths_[s];
    for (std::int64_t at = (position + k / all) % length; tokens > 0; at = 0) {
      const std::int64_t count = std::min(tokens, length - at);
      moesim::append(runs, {firsts_[s] + at, count});
      tokens -= count;
    }
  }

 private:
  std::span<const std::int32_t> lengths_;
  std::vector<std::int64_t> firsts_;
};

/// Calls visit(rank, sequence) for those of one part of a pass.
template <class Visit>
void for_each_sequence(const ServingSpec& spec, int ranks, const BatchPart& part, Visit visit) {
  for (int rank = 0; rank < ranks; ++rank) {
    for (const SequenceStep& each : list_of(spec, rank, part)) {
      for (std::int64_t i = 0; i < each.count; ++i) visit(rank, each);
    }
  }
}

}  // namespace

std::vector<std::int32_t> new_tokens(const ServingSpec& spec, int ranks) {
  std::vector<std::int32_t> tokens;
  for (const BatchPart& part : parts_of(spec, false)) {
    for_each_sequence(spec, ranks, part, [&](int, const SequenceStep& each) {
      tokens.push_back(static_cast<std::int32_t>(each.tokens));
    });
  }
  return tokens;
}

Batch serving_batch(const RoutingTrace& trace, int step, const Grid& grid, const ServingSpec& spec,
                    const BatchPart& part) {
  const RecordedSequences recorded(trace.step(step));
  const int ranks = grid.size(ParallelAxis::dp);
  std::vector<std::vector<TokenRun>> of_ranks(static_cast<std::size_t>(ranks));
  std::int64_t k = 0;
  for (BatchPart before = part; before.half > 0;) {
    --before.half;
    for_each_sequence(spec, ranks, before, [&](int, const SequenceStep&) { ++k; });
  }
  for_each_sequence(spec, ranks, part, [&](int rank, const SequenceStep& each) {
    recorded.append(each.request >= 0 ? each.request : k, each.context, each.tokens,
                    of_ranks[static_cast<std::size_t>(rank)]);
    ++k;
  });
  Batch batch{step, {}};
  const int tp = grid.size(ParallelAxis::tp), shares = grid.size(ParallelAxis::tp_cp);
  for (const GpuId gpu : grid.stage_by(ParallelAxis::ep, 0)) {
    const GridPlace place = grid.place(gpu);
    const auto& runs = of_ranks[static_cast<std::size_t>(place.dp)];
    batch.ranks.push_back(moesim::part_of(runs, place.cp * tp + place.tp, shares));
  }
  return batch;
}

Batch whole_step(const RoutingTrace& trace, int step, const Grid& grid, const ServingSpec& spec) {
  const int ranks = grid.size(ParallelAxis::dp), attending = spec.attending(ranks);
  ServingSpec whole = spec;
  whole.batch.ranks.assign(static_cast<std::size_t>(ranks), {});
  whole.pad.clear();
  std::int64_t number = 0;
  for (const std::int32_t length : trace.step(step).sequence_lengths()) {
    const auto rank = static_cast<std::size_t>(number % attending);
    whole.batch.ranks[rank].push_back({0, length, 1, number++});
  }
  return serving_batch(trace, step, grid, whole);
}

Microbatches make_serving_batches(const RoutingTrace& trace, const IterationShape& shape,
                                  const ServingSpec& spec) {
  if (trace.total_tokens() == 0) {
    throw Error(fmt::format("trace '{}' is empty", trace.info().name));
  }
  const int ranks = shape.grid.size(ParallelAxis::dp);
  Microbatches result;
  result.distinct = result.per_iteration = shape.microbatches;
  std::int64_t fewest = trace.step(0).tokens();
  for (int step = 0; step < trace.step_count(); ++step) {
    fewest = std::min(fewest, std::max<std::int64_t>(1, trace.step(step).tokens()));
    for (const BatchPart& part : shape.batch_parts) {
      result.recorded.push_back(serving_batch(trace, step, shape.grid, spec, part));
    }
  }
  result.repeat = static_cast<int>((tokens_of(spec, ranks) + fewest - 1) / fewest);
  return result;
}

}  // namespace moesim
