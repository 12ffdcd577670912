// SPDX-License-Identifier: Apache-2.0
#include "sim/planner/pipeline/shortened.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <numeric>
#include <utility>

namespace moesim {
namespace {

/// Warm-ups last some two microbatches per stage, and differences die out within one more.
constexpr int settled_per_stage = 3;
constexpr int periods_kept = 6;
constexpr int groups_kept = 5;  // a group has a microbatch for every stage

Turn later(Turn turn, int microbatches) {
  turn.work.microbatch += microbatches;
  if (turn.beside) turn.beside->microbatch += microbatches;
  return turn;
}

/// A turn of the shorter pipeline under the numbers of the whole: DualPipe's second half enters at
/// the other end, from the middle number on.
Turn renumbered(const Turn& turn, const Pipeline& whole, const Pipeline& few) {
  if (whole.copies() == 1) return turn;
  const int half = few.microbatches() / 2, left_out = whole.microbatches() / 2 - half;
  Turn result = turn;
  if (result.work.microbatch >= half) result.work.microbatch += left_out;
  if (result.beside && result.beside->microbatch >= half) result.beside->microbatch += left_out;
  return result;
}

/// The two timetables of a stage.
class StageTurns {
 public:
  StageTurns(const Pipeline& whole, const Pipeline& few, int stage) : whole_(whole.of(stage)) {
    for (const Turn& turn : few.of(stage)) few_.push_back(renumbered(turn, whole, few));
  }

  /// `each`: microbatches of a period, of one way through the stages; `times` of them are left out.
  std::optional<RepeatingTurns> repeating(int each, int times) const {
    const int all = static_cast<int>(whole_.size()), kept = static_cast<int>(few_.size());
    if (all <= kept || (all - kept) % times != 0) return std::nullopt;
    RepeatingTurns found{.turns = (all - kept) / times};
    int same = 0, same_end = 0;
    while (same < kept && few(same) == whole(same)) ++same;
    while (same_end < kept &&
           later(few(kept - 1 - same_end), each * times) == whole(all - 1 - same_end)) {
      ++same_end;
    }
    const auto [begin, end] = longest_run(found.turns, each);
    const auto [gathered, summed] = between_replicas();
    found.first = std::max({begin + found.turns, kept - same_end, gathered + found.turns});
    found.last = std::min({same, end - found.turns * times, summed});
    return found.first <= found.last ? std::optional(found) : std::nullopt;
  }

 private:
  const Turn& whole(int turn) const { return whole_[static_cast<std::size_t>(turn)]; }
  const Turn& few(int turn) const { return few_[static_cast<std::size_t>(turn)]; }

  /// The first forward of a chunk may gather its weights, the last backward sum its gradients.
  /// Returns up to where the former are, and from where on the latter.
  std::pair<int, int> between_replicas() const {
    std::map<int, int> forward, backward;  // [chunk]
    const auto look = [&](const StageWork& work, int turn) {
      if (work.kind == WorkKind::forward) forward.try_emplace(work.chunk, turn);
      if (work.kind != WorkKind::forward) backward[work.chunk] = turn;
    };
    for (int t = 0; std::cmp_less(t, few_.size()); ++t) {
      look(few(t).work, t);
      if (few(t).beside) look(*few(t).beside, t);
    }
    int gathered = 0, summed = static_cast<int>(few_.size());
    for (const auto& [chunk, turn] : forward) gathered = std::max(gathered, turn + 1);
    for (const auto& [chunk, turn] : backward) summed = std::min(summed, turn);
    return {gathered, summed};
  }

  /// The longest stretch of the whole timetable in which each turn is that of a period before, of
  /// later microbatches.
  std::pair<int, int> longest_run(int turns, int each) const {
    std::pair<int, int> longest{0, 0};
    int begin = 0;
    for (int t = turns; t < std::ssize(whole_); ++t) {
      if (later(whole(t - turns), each) != whole(t)) {
        begin = t - turns + 1;
      } else if (t + 1 - begin > longest.second - longest.first) {
        longest = {begin, t + 1};
      }
    }
    return longest;
  }

  const Timetable& whole_;
  Timetable few_;
};

/// Microbatches that pass the chunks of a stage as a group.
int group_of(const PipelineShape& shape) { return shape.chunks > 1 ? shape.stages : 1; }

}  // namespace

std::optional<ShortenedPipeline> shortened(const Pipeline& whole, int distinct) {
  PipelineShape shape = whole.shape();
  if (!shape.backward) return std::nullopt;
  const int ways = whole.copies(), group = group_of(shape);
  const int each = std::lcm(distinct, group), period = each * ways;
  const int periods = group > 1 ? groups_kept : periods_kept;
  const int settled = std::max(settled_per_stage * shape.stages, periods * period);
  const int times = (shape.microbatches - settled) / period;
  const int kept = shape.microbatches - times * period;
  if (times < 1 || 2 * shape.microbatches < 3 * kept) return std::nullopt;
  shape.microbatches = kept;
  ShortenedPipeline result{Pipeline(shape), whole.microbatches(), times, {}};
  for (int stage = 0; stage < shape.stages; ++stage) {
    const auto turns = StageTurns(whole, result.pipeline, stage).repeating(each, times);
    if (!turns) return std::nullopt;
    result.stages.push_back(*turns);
  }
  return result;
}

}  // namespace moesim
