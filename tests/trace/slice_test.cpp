// SPDX-License-Identifier: Apache-2.0
#include "sim/trace/slice.h"

#include <gmock/gmock.h>

#include "sim/trace/writer.h"
#include "tests/error_of.h"
#include "tests/trace/samples.h"
#include "tests/trace/scratch.h"

namespace moesim {
namespace {

/// 3 steps, model layers 2, 5 and 9, 4 tokens in sequences of 3 and 1; id = step + layer + token
/// mod 8.
RoutingTrace cube() {
  const TraceInfo info{"cube", "toy", 8, 1, {2, 5, 9}, Phase::training, ""};
  std::vector<std::shared_ptr<const TraceStep>> steps;
  for (int s = 0; s < 3; ++s) {
    StepArrays step;
    step.number = 10 * s;
    step.ids = IdArray(8, 12);
    for (int i = 0; i < 12; ++i) step.ids.set(i, (s + i / 4 + i % 4) % 8);
    step.sequence_lengths = {3, 1};
    step.source_ranks = {4, 5, 6, 7};
    for (int i = 0; i < 12; ++i) step.weights.push_back(static_cast<float>(i));
    steps.push_back(make_step(info, std::move(step)));
  }
  return {info, std::move(steps)};
}

TEST(Slice, TakesStepsLayersAndTokens) {
  const auto part = slice(cube(), {.steps = std::pair(1, 3), .layers = {9, 2}, .tokens = 2});
  EXPECT_EQ(part.info().layers, (std::vector{2, 9}));
  ASSERT_EQ(part.step_count(), 2);
  const auto& step = part.step(0);
  EXPECT_EQ(step.number(), 10);
  EXPECT_EQ(step.tokens(), 2);
  EXPECT_THAT(step.sequence_lengths(), testing::ElementsAre(2));
  EXPECT_EQ(step.ids(1).at(1, 0), 1 + 2 + 1);
  EXPECT_EQ(step.weight(1, 1, 0), 9.0F);
  EXPECT_EQ(step.source_rank(1), 5);
  EXPECT_THAT(part.info().provenance, testing::HasSubstr("sliced_from"));
}

TEST(Slice, TakesSequences) {
  const auto second = slice(cube(), {.layers = {5}, .sequences = std::pair(1, 9)});
  const auto& step = second.step(2);
  EXPECT_THAT(step.sequence_lengths(), testing::ElementsAre(1));
  EXPECT_EQ(step.tokens(), 1);
  EXPECT_EQ(step.ids(0).at(0, 0), 2 + 1 + 3);
  EXPECT_EQ(step.weight(0, 0, 0), 4 + 3.0F);
  EXPECT_EQ(step.source_rank(0), 7);
  EXPECT_THAT(second.info().provenance, testing::HasSubstr("\"layers\":[5],\"sequences\":[1,9]"));
  const auto first = slice(cube(), {.sequences = std::pair(0, 1), .tokens = 2});
  EXPECT_THAT(first.step(0).sequence_lengths(), testing::ElementsAre(2));
  EXPECT_THAT(first.info().provenance, testing::Not(testing::HasSubstr("\"layers\"")));
}

/// All slices by sequence, and by both, put together again are the whole.
TEST(Slice, OfSequencesAddUpToTheTrace) {
  const auto whole = trace_of_sequences({{5, 2, 7, 1, 3}});
  std::int64_t at = 0;
  for (int s = 0; s < 5; ++s) {
    const auto part = slice(whole, {.sequences = std::pair(s, s + 1)});
    const auto& step = part.step(0);
    for (std::int64_t t = 0; t < step.tokens(); ++t, ++at) {
      EXPECT_EQ(step.ids(0).at(t, 0), whole.step(0).ids(0).at(at, 0));
    }
  }
  EXPECT_EQ(at, 18);
  EXPECT_EQ(slice(whole, {.sequences = std::pair(1, 4)}).step(0).tokens(), 10);
}

TEST(Slice, OfEverythingHoldsTheSameArrays) {
  const auto part = slice(cube(), {});
  ASSERT_EQ(part.step_count(), 3);
  EXPECT_EQ(part.hash(), cube().hash());
}

TEST(Slice, CanBeWrittenAndReadBack) {
  ScratchFolder scratch;
  const auto part = slice(cube(), {.layers = {5}, .tokens = 4});
  auto writer = TraceWriter::create(scratch / "t", part.info(), TraceWriter::Publish::each_step);
  for (int s = 0; s < part.step_count(); ++s) writer.append_step(part.step(s));
  EXPECT_EQ(RoutingTrace::open(scratch / "t").hash(), part.hash());
}

TEST(Slice, RefusesWhatIsNotThere) {
  EXPECT_EQ(error_of([] { slice(cube(), {.layers = {3}}); }),
            "error: trace 'cube' has no layer 3\nhint: its layers are 2, 5, 9\n");
  EXPECT_EQ(error_of([] { slice(cube(), {.steps = std::pair(1, 1)}); }),
            "error: steps 1:1 are none of trace 'cube'\n"
            "hint: its steps are 0:3, the second not included\n");
  EXPECT_EQ(error_of([] { slice(cube(), {.steps = std::pair(2, 4)}); }),
            "error: steps 2:4 are none of trace 'cube'\n"
            "hint: its steps are 0:3, the second not included\n");
  EXPECT_EQ(error_of([] { slice(cube(), {.sequences = std::pair(2, 4)}); }),
            "error: sequences 2:4 are none of step 0\n"
            "hint: its sequences are 0:2, the second not included\n");
  EXPECT_EQ(error_of([] { slice(cube(), {.tokens = 0}); }),
            "error: a slice has at least one token\n");
  EXPECT_EQ(slice(cube(), {.tokens = 1}).step(0).tokens(), 1);
}

}  // namespace
}  // namespace moesim
