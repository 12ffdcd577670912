// SPDX-License-Identifier: Apache-2.0
// Pipelines of which a period may be run again.
#include "sim/planner/pipeline/shortened.h"

#include <gtest/gtest.h>

#include <map>
#include <ostream>
#include <tuple>

namespace moesim {
namespace {

struct ShortCase {
  PipelineKind kind;
  int stages, microbatches, chunks, distinct;
};

void PrintTo(const ShortCase& of, std::ostream* out) {
  *out << name_of(of.kind) << ' ' << of.stages << ' ' << of.microbatches;
}

/// Works by kind, chunk, and how many of these the stage has done before: numbers of microbatches
/// left aside.
using Works = std::vector<std::tuple<WorkKind, int, int>>;

Works works_of(const Timetable& turns, int left_out_from, int left_out) {
  Works works;
  std::map<std::pair<WorkKind, int>, int> done;
  int turn = 0;
  for (const Turn& each : turns) {
    const bool kept = turn < left_out_from || turn >= left_out_from + left_out;
    ++turn;
    if (!kept) continue;
    for (const StageWork* work : {&each.work, each.beside ? &*each.beside : nullptr}) {
      if (work == nullptr) continue;
      works.emplace_back(work->kind, work->chunk, done[{work->kind, work->chunk}]++);
    }
  }
  return works;
}

class Shortened : public testing::TestWithParam<ShortCase> {};

TEST_P(Shortened, IsTheWholeWithoutSomePeriods) {
  const ShortCase& of = GetParam();
  const Pipeline whole({of.kind, of.stages, of.microbatches, of.chunks});
  const auto few = shortened(whole, of.distinct);
  ASSERT_TRUE(few);
  EXPECT_EQ(few->microbatches, of.microbatches);
  EXPECT_EQ((of.microbatches - few->pipeline.microbatches()) % (of.distinct * few->times), 0);
  ASSERT_EQ(std::ssize(few->stages), of.stages);
  for (int stage = 0; stage < of.stages; ++stage) {
    const RepeatingTurns& turns = few->stages[static_cast<std::size_t>(stage)];
    EXPECT_LE(turns.first, turns.last);
    for (const int cut : {turns.first, turns.last}) {
      EXPECT_EQ(works_of(whole.of(stage), cut, turns.turns * few->times),
                works_of(few->pipeline.of(stage), 0, 0))
          << "stage " << stage << " at " << cut;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Shortened,
                         testing::Values(ShortCase{PipelineKind::one_f_one_b, 1, 40, 1, 2},
                                         ShortCase{PipelineKind::one_f_one_b, 4, 64, 1, 1},
                                         ShortCase{PipelineKind::one_f_one_b, 8, 96, 1, 3},
                                         ShortCase{PipelineKind::interleaved, 4, 64, 2, 2},
                                         ShortCase{PipelineKind::interleaved, 4, 96, 3, 1},
                                         ShortCase{PipelineKind::combined, 4, 64, 1, 2},
                                         ShortCase{PipelineKind::combined_interleaved, 4, 64, 2, 1},
                                         ShortCase{PipelineKind::zb1p, 4, 64, 1, 2},
                                         ShortCase{PipelineKind::dualpipe, 4, 64, 1, 2},
                                         ShortCase{PipelineKind::dualpipe, 8, 120, 1, 1},
                                         ShortCase{PipelineKind::dualpipev, 4, 64, 1, 2},
                                         ShortCase{PipelineKind::zbv, 4, 64, 1, 1},
                                         ShortCase{PipelineKind::v_half, 4, 64, 1, 2},
                                         ShortCase{PipelineKind::v_min, 4, 64, 1, 2}));

TEST(ShortenedPipeline, IsNoneWithoutARepeatingPart) {
  EXPECT_FALSE(shortened(Pipeline({PipelineKind::gpipe, 4, 64}), 1));  // two parts repeat
  EXPECT_FALSE(shortened(Pipeline({PipelineKind::one_f_one_b, 4, 64}), 64));
  EXPECT_FALSE(shortened(Pipeline({PipelineKind::one_f_one_b, 4, 16}), 1));  // it would not pay
  EXPECT_FALSE(shortened(Pipeline({.stages = 4, .microbatches = 64, .backward = false}), 1));
}

TEST(ShortenedPipeline, KeepsSixPeriodsFiveGroupsOrThreeMicrobatchesPerStage) {
  const auto kept = [](const PipelineShape& shape, int distinct) {
    return shortened(Pipeline(shape), distinct)->pipeline.microbatches();
  };
  EXPECT_EQ(kept({PipelineKind::one_f_one_b, 1, 40}, 2), 12);
  EXPECT_EQ(kept({PipelineKind::interleaved, 4, 64, 2}, 1), 20);
  EXPECT_EQ(kept({PipelineKind::one_f_one_b, 4, 64}, 1), 12);
}

TEST(ShortenedPipeline, LeavesTheFirstForwardAndTheLastBackwardAlone) {
  const auto few = shortened(Pipeline({PipelineKind::one_f_one_b, 1, 40}), 1);
  ASSERT_TRUE(few);
  EXPECT_EQ(few->stages[0].turns, 2);
  EXPECT_EQ(few->stages[0].first, 3);
  EXPECT_EQ(few->stages[0].last, 2 * few->pipeline.microbatches() - 1);
}

}  // namespace
}  // namespace moesim
