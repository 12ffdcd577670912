// SPDX-License-Identifier: Apache-2.0
#include "sim/trace/suspicions.h"

#include <gmock/gmock.h>

#include "sim/trace/memory_step.h"
#include "sim/trace/synth/synth.h"

namespace moesim {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr int suspicious_experts = 16;

/// Two layers of 64 sequences of 32 tokens, top-2 of 16 experts at random, in two steps.
SynthOptions usual_routing() {
  SynthOptions options;
  options.experts = suspicious_experts;
  options.top_k = 2;
  options.layers = {1, 2};
  options.tokens = 2048;
  options.sequences = 64;
  options.steps = 2;
  options.skew = 0.5;
  return options;
}

/// Those steps, each changed by `change`.
RoutingTrace changed(const std::function<void(StepArrays&)>& change) {
  Synthesis synthesis(usual_routing());
  const TraceInfo info = synthesis.info();
  std::vector<std::shared_ptr<const TraceStep>> steps;
  for (int s = 0; s < 2; ++s) {
    const auto drawn = synthesis.next_step();
    StepArrays arrays;
    arrays.number = drawn->number();
    arrays.sequence_lengths.assign(drawn->sequence_lengths().begin(),
                                   drawn->sequence_lengths().end());
    arrays.ids = IdArray(info.experts, 2 * drawn->tokens() * 2);
    for (std::int64_t i = 0; i < arrays.ids.count(); ++i) {
      const std::int64_t row = i / 2 % drawn->tokens();
      arrays.ids.set(
          i,
          drawn->ids(static_cast<int>(i / 2 / drawn->tokens())).at(row, static_cast<int>(i % 2)));
    }
    change(arrays);
    steps.push_back(make_step(info, std::move(arrays)));
  }
  return {info, std::move(steps)};
}

/// Copies the choices of `tokens` tokens, in both layers.
void copy_tokens(StepArrays& step, std::int64_t from, std::int64_t to, std::int64_t tokens,
                 std::int64_t stride = 1) {
  for (const std::int64_t layer : {0, 2048}) {
    for (std::int64_t i = 0; i < 2 * tokens; ++i) {
      const std::int64_t source = 2 * (layer + from) + (stride == 0 ? i % 2 : i);
      step.ids.set(2 * (layer + to) + i, step.ids.data()[source]);
    }
  }
}

TEST(Suspicions, UsualRoutingHasNone) {
  EXPECT_THAT(suspicions(changed([](StepArrays&) {})), IsEmpty());
}

TEST(Suspicions, ProgressIsThePartOfTheStepsThatWereLookedAt) {
  std::vector<double> parts;
  suspicions(changed([](StepArrays&) {}), {}, [&](double part) { parts.push_back(part); });
  EXPECT_THAT(parts, ElementsAre(0, 0.5));
}

TEST(Suspicions, DummyPassesAndPadding) {
  const auto found =
      suspicions(changed([](StepArrays& step) { copy_tokens(step, 0, 320, 96, 0); }));
  EXPECT_THAT(found, Contains(HasSubstr("192 tokens are of sequences whose tokens all choose")));
  EXPECT_THAT(found, Contains(HasSubstr("% of a step's tokens choose the same experts in all")));
}

TEST(Suspicions, RepeatedSequencesAndRanks) {
  const auto found = suspicions(changed([](StepArrays& step) {
    copy_tokens(step, 0, 1024, 1024);
    for (int t = 0; t < 2048; ++t) step.source_ranks.push_back(t / 1024);
  }));
  EXPECT_THAT(found, Contains(HasSubstr("64 sequences repeat another one of their step")));
  EXPECT_THAT(found, Contains(HasSubstr("2 source ranks repeat another one")));
}

TEST(Suspicions, LayersThatWereNotToldApart) {
  EXPECT_THAT(suspicions(changed([](StepArrays& step) {
                for (std::int64_t i = 0; i < 4096; ++i) step.ids.set(4096 + i, step.ids.data()[i]);
              })),
              Contains(HasSubstr("2 times a layer has the very choices of the one before it")));
}

TEST(Suspicions, TokensThatWereMadeUpFromCounts) {
  EXPECT_THAT(suspicions(changed([](StepArrays& step) {
                for (std::int64_t i = 0; i < 8192; ++i) {
                  step.ids.set(i, static_cast<int>(i / 2 % 2048 / 128 + i % 2) % 16);
                }
              })),
              Contains(HasSubstr("2 steps have tokens in the order of their experts")));
}

TEST(Suspicions, LoadsThatNoGateGives) {
  const auto round_robin = suspicions(changed([](StepArrays& step) {
    for (std::int64_t i = 0; i < 8192; ++i) step.ids.set(i, static_cast<int>(i % 16));
  }));
  EXPECT_THAT(round_robin, Contains(HasSubstr("2 of 2 layers have loads more even than chance")));
  const auto of_seven = suspicions(changed([](StepArrays& step) {
    for (std::int64_t i = 0; i < 8192; ++i)
      step.ids.set(i, static_cast<int>(i % 2 * (1 + i / 2 % 7)));
  }));
  EXPECT_THAT(of_seven, Contains(HasSubstr("16 of 32 experts were never chosen")));
  EXPECT_THAT(of_seven, Contains(HasSubstr("2 experts are chosen by every token: shared")));
}

TEST(Suspicions, AgainstTheModelAndThePlanner) {
  const auto trace = changed([](StepArrays&) {});
  SuspicionOptions options{ExpectedModel{"m", 12, 4, {1, 2, 3, 4}}, 2};
  EXPECT_THAT(
      suspicions(trace, options),
      ElementsAre("16 experts where m has 12: ids of slots, or shared experts among them",
                  "top-2 where m has top-4", "2 of m's 4 MoE layers are missing, the first is 3",
                  "2 steps: a planner that first plans after 2 never does"));
  options.model = ExpectedModel{"m", 16, 2, {1, 2}};
  options.interval = 1;
  EXPECT_THAT(suspicions(trace, options), IsEmpty());
}

TEST(Suspicions, RowsOfCountsAreNotLookedAt) {
  auto same = changed([](StepArrays& step) { copy_tokens(step, 0, 0, 2048, 0); });
  TraceInfo info = same.info();
  info.counts_alone = true;
  EXPECT_THAT(suspicions(RoutingTrace(info, {same.shared_step(0), same.shared_step(1)})),
              Not(Contains(HasSubstr("choose the same"))));
}

}  // namespace
}  // namespace moesim
