// SPDX-License-Identifier: Apache-2.0
// Orders by hand, the rules that all orders keep, and the ones that are refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <stdexcept>

#include "tests/planner/pipeline/pipelines.h"

namespace moesim {
namespace {

using test::Kind;
using test::pipeline;
using ::testing::HasSubstr;

/// "F0 B0 F1|B0 I2 W2", chunks behind a dot if there are several.
std::string text(const Timetable& timetable, bool chunks = false) {
  std::string line;
  const auto add = [&](const StageWork& work) {
    line += "FBIW"[static_cast<std::size_t>(work.kind)] + std::to_string(work.microbatch);
    if (chunks) line += "." + std::to_string(work.chunk);
  };
  for (const Turn& turn : timetable) {
    if (!line.empty()) line += " ";
    add(turn.work);
    if (!turn.beside) continue;
    line += "|";
    add(*turn.beside);
  }
  return line;
}

TEST(PipelineOrder, ByHand) {
  const Pipeline gpipe = pipeline(Kind::gpipe, 2, 3);
  EXPECT_EQ(text(gpipe.of(1)), "F0 F1 F2 B2 B1 B0");
  const Pipeline plain = pipeline(Kind::one_f_one_b, 3, 4);
  EXPECT_EQ(text(plain.of(0)), "F0 F1 F2 B0 F3 B1 B2 B3");
  EXPECT_EQ(text(plain.of(2)), "F0 B0 F1 B1 F2 B2 F3 B3");
  const Pipeline interleaved = pipeline(Kind::interleaved, 2, 4, 2);
  EXPECT_EQ(text(interleaved.of(1), true),
            "F0.0 F1.0 F0.1 B0.1 F1.1 B1.1 F2.0 B0.0 F3.0 B1.0 F2.1 B2.1 F3.1 B3.1 B2.0 B3.0");
  const Pipeline combined = pipeline(Kind::combined, 2, 4);
  EXPECT_EQ(text(combined.of(0)), "F0 F1 F2 F3|B0 B1 B2 B3");
  EXPECT_EQ(text(combined.of(1)), "F0 F1|B0 F2|B1 F3|B2 B3");
  const Pipeline zb1p = pipeline(Kind::zb1p, 3, 4);
  EXPECT_EQ(text(zb1p.of(0)), "F0 F1 F2 I0 W0 F3 I1 W1 I2 W2 I3 W3");
  EXPECT_EQ(text(zb1p.of(2)), "F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 W2 W3");
}

TEST(PipelineOrder, DualPipeByHand) {
  const Pipeline dual = pipeline(Kind::dualpipe, 4, 8);
  EXPECT_EQ(text(dual.of(0)), "F0 F1 F2 F4 I4 W4 F5 F3|B5 F6|B0 B6 F7|B1 B7 I2 W2 I3 W3");
  EXPECT_EQ(text(dual.of(1)), "F0 F4 F1 F5 F2 B4 F6|B0 F3|B5 F7|B1 B6 B2 I7 I3 W7 W3");
  EXPECT_EQ(text(dual.of(3)), "F4 F5 F6 F0 I0 W0 F1 F7|B1 F2|B4 B2 F3|B5 B3 I6 W6 I7 W7");
}

TEST(PipelineOrder, OfAVByHand) {
  const Pipeline zbv = pipeline(Kind::zbv, 2, 3);
  EXPECT_EQ(text(zbv.of(0), true),
            "F0.0 F1.0 F2.0 F0.1 I0.1 W0.1 F1.1 I1.1 W1.1 I0.0 W0.0 F2.1 I2.1 W2.1 I1.0 W1.0 I2.0 "
            "W2.0");
  EXPECT_EQ(text(zbv.of(1), true),
            "F0.0 F0.1 F1.0 F1.1 I0.1 W0.1 F2.0 I0.0 W0.0 F2.1 I1.1 W1.1 I1.0 I2.1 I2.0 W1.0 W2.1 "
            "W2.0");
  const Pipeline least = pipeline(Kind::v_min, 2, 2);
  EXPECT_EQ(text(least.of(1), true), "F0.0 F0.1 I0.1 I0.0 F1.0 F1.1 W0.1 W0.0 I1.1 I1.0 W1.1 W1.0");
}

std::vector<PipelineShape> many_shapes() {
  std::vector<PipelineShape> shapes;
  for (int p = 1; p <= 9; ++p) {
    for (int m = 1; m <= 3 * p + 1; ++m) {
      using enum PipelineKind;
      for (const test::Kind kind : {gpipe, one_f_one_b, combined, zb1p, zbv, v_half, v_min}) {
        shapes.push_back({kind, p, m, 1});
      }
      if (m % p == 0) {
        for (const int v : {2, 3, 5}) {
          shapes.push_back({interleaved, p, m, v});
          shapes.push_back({combined_interleaved, p, m, v});
        }
      }
      if (m < 2 * p) continue;
      shapes.push_back({dualpipev, p, m, 1});
      if (p % 2 == 0 && m % 2 == 0) shapes.push_back({dualpipe, p, m, 1});
    }
  }
  for (const int p : {16, 32}) shapes.push_back({Kind::dualpipe, p, 4 * p, 1});
  return shapes;
}

/// Follows the order of all turns with books of one's own.
void expect_sound(const Pipeline& p) {
  std::set<std::tuple<WorkKind, int, int>> done;  // kind of part, microbatch, position
  std::map<int, int> next;                        // turn, by stage
  const auto has = [&](WorkKind kind, int microbatch, int position) {
    return done.contains({kind, microbatch, position});
  };
  using enum WorkKind;
  for (const TurnAt at : p.order()) {
    ASSERT_EQ(at.turn, next[at.stage]++);
    const Turn& turn = p.at(at);
    std::vector<StageWork> works = {turn.work};
    if (turn.beside) works.push_back(*turn.beside);
    for (const StageWork& work : works) {
      const int m = work.microbatch;
      const int position = p.position_of({at.stage, work.chunk});
      ASSERT_EQ(p.place(m, position), (ChunkPlace{at.stage, work.chunk}));
      if (work.kind == forward) {
        ASSERT_TRUE(position == 0 || has(forward, m, position - 1));
      } else if (work.kind == weight_gradient) {
        ASSERT_TRUE(has(input_gradient, m, position));
      } else {
        ASSERT_TRUE(has(forward, m, position));
        ASSERT_TRUE(position + 1 == p.positions() || has(input_gradient, m, position + 1));
      }
    }
    for (const StageWork& work : works) {
      const int position = p.position_of({at.stage, work.chunk});
      std::vector<WorkKind> parts = {work.kind};
      if (work.kind == backward) parts = {input_gradient, weight_gradient};
      for (const WorkKind part : parts) {
        ASSERT_TRUE(done.insert({part, work.microbatch, position}).second);
        ASSERT_EQ(p.turn_of(part, work.microbatch, position), at);
      }
    }
  }
  ASSERT_EQ(done.size(), static_cast<std::size_t>(3 * p.microbatches() * p.positions()));
}

TEST(PipelineOrder, EveryMicrobatchPassesEveryPositionOnceAndInOrder) {
  for (const PipelineShape& shape : many_shapes()) {
    SCOPED_TRACE(name_of(shape.kind) + " P " + std::to_string(shape.stages) + " m " +
                 std::to_string(shape.microbatches) + " v " + std::to_string(shape.chunks));
    const Pipeline p(shape);
    ASSERT_NO_FATAL_FAILURE(expect_sound(p));
    for (int stage = 0; stage < p.stages(); ++stage) {
      const std::vector<int> live = live_activations(p.of(stage));
      ASSERT_GE(*std::min_element(live.begin(), live.end()), 1);  // of a turn's own
    }
  }
}

std::string refusal(const PipelineShape& shape, std::vector<Timetable> timetables) {
  try {
    Pipeline(shape, std::move(timetables));
  } catch (const std::logic_error& e) {
    return e.what();
  }
  return "";
}

/// The timetables of a combined schedule with other warm-ups.
std::vector<Timetable> with_warm_up(int m, const std::vector<int>& warm_ups) {
  std::vector<Timetable> tables;
  for (const int warm : warm_ups) {
    Timetable& table = tables.emplace_back();
    const auto backward = [](int i) { return StageWork{WorkKind::backward, i, 0}; };
    for (int i = 0; i < m; ++i) {
      table.push_back({{WorkKind::forward, i, 0}, {}});
      if (i >= warm) table.back().beside = backward(i - warm);
    }
    for (int i = m - warm; i < m; ++i) table.push_back({backward(i), {}});
  }
  return tables;
}

TEST(PipelineOrder, MergedTurnsWithoutOneMoreForwardDeadlock) {
  const PipelineShape shape{Kind::combined, 4, 8, 1};
  EXPECT_EQ(refusal(shape, with_warm_up(8, {7, 5, 3, 1})), "");
  // 1F1B's warm-up and that of interleaved 1F1B: the last stage would merge both passes of one
  // microbatch.
  EXPECT_THAT(
      refusal(shape, with_warm_up(8, {3, 2, 1, 0})),
      HasSubstr("the pipeline deadlocks:\n  stage 0, turn 3: forward of microbatch 3, chunk "
                "0 with backward of microbatch 0, chunk 0 waits for stage 1, turn 2\n"));
  EXPECT_THAT(refusal(shape, with_warm_up(8, {6, 4, 2, 0})),
              HasSubstr("stage 3, turn 0: forward of microbatch 0, chunk 0 with backward of "
                        "microbatch 0, chunk 0 waits for stage 3, turn 0"));
}

TEST(PipelineOrder, OneMoreForwardThan1F1BIsCorrectButSlow) {
  const Pipeline slow({Kind::combined, 4, 8, 1}, with_warm_up(8, {4, 3, 2, 1}));
  EXPECT_DOUBLE_EQ(test::makespan(slow, test::costs(1, 1, 1, 3)), 51);
}

TEST(PipelineOrder, RefusesWhatIsNotWhole) {
  const PipelineShape shape{Kind::one_f_one_b, 1, 1, 1};
  const Turn f{{WorkKind::forward, 0, 0}, {}};
  const Turn b{{WorkKind::backward, 0, 0}, {}};
  const Turn i{{WorkKind::input_gradient, 0, 0}, {}};
  const Turn w{{WorkKind::weight_gradient, 0, 0}, {}};
  EXPECT_EQ(refusal(shape, {{f, b}}), "");
  EXPECT_EQ(refusal(shape, {{f, i, w}}), "");
  EXPECT_EQ(refusal(shape, {}), "0 timetables of 1 pipeline stages");
  EXPECT_EQ(refusal(shape, {{f}}), "no backward of microbatch 0 at position 0");
  EXPECT_EQ(refusal(shape, {{f, i}}), "no weight gradient of microbatch 0 at position 0");
  EXPECT_EQ(refusal(shape, {{f, b, w}}),
            "stage 0 runs weight gradient of microbatch 0, chunk 0 twice");
  EXPECT_EQ(refusal(shape, {{{{WorkKind::forward, 1, 0}, {}}}}),
            "stage 0 has no forward of microbatch 1, chunk 0");
  EXPECT_EQ(
      refusal(shape, {{{b.work, f.work}}}),
      "stage 0 merges backward of microbatch 0, chunk 0 with forward of microbatch 0, chunk 0");
  EXPECT_THAT(refusal(shape, {{b, f}}), HasSubstr("deadlocks"));
  EXPECT_THAT(refusal(shape, {{f, w, i}}), HasSubstr("deadlocks"));
  // A microbatch of the second half runs in chunks 1.
  Pipeline dual = pipeline(Kind::dualpipe, 2, 4);
  std::vector<Timetable> tables = {dual.of(0), dual.of(1)};
  tables[0][0].work.microbatch = 2;
  EXPECT_EQ(refusal(dual.shape(), tables), "stage 0 has no forward of microbatch 2, chunk 0");
}

}  // namespace
}  // namespace moesim
