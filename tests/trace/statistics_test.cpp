// SPDX-License-Identifier: Apache-2.0
#include "sim/trace/statistics.h"

#include <gmock/gmock.h>

#include <cmath>

#include "tests/error_of.h"
#include "tests/trace/samples.h"
#include "tests/trace/scratch.h"

namespace moesim {
namespace {

TEST(Statistics, OfThreeTokens) {  // {0,1} {2,3} | {0,2} of 4 experts
  const auto s = measure(tiny_trace(), {.ranks = {2, 4}});
  EXPECT_EQ(s.tokens, 3);
  EXPECT_EQ(s.sequences, 2);
  EXPECT_EQ(s.median_sequence, 1.5);
  EXPECT_THAT(s.counts[0], testing::ElementsAre(2, 1, 2, 1));
  EXPECT_EQ(s.counts_crc32, "0a274241");  // by Python, of four 32-bit numbers
  EXPECT_EQ(s.counts_fnv1a64, "92dde59f6cb28485");
  EXPECT_DOUBLE_EQ(s.expert_max_over_mean.mean(), 2 / 1.5);
  EXPECT_DOUBLE_EQ(s.expert_load_cv.mean(), 0.5 / 1.5);
  EXPECT_DOUBLE_EQ(s.previous_token_overlap.mean(), 0);  // the third token starts a sequence
  EXPECT_DOUBLE_EQ(s.uniform_overlap, 0.5);
  EXPECT_DOUBLE_EQ(s.ranks[0].distinct_ranks, (1 + 1 + 2) / 3.0);
  EXPECT_DOUBLE_EQ(s.ranks[0].rank_max_over_mean.mean(), 1);
  EXPECT_DOUBLE_EQ(s.ranks[1].distinct_ranks, 2);
  EXPECT_DOUBLE_EQ(s.ranks[1].rank_max_over_mean.mean(), 2 / 1.5);
  ASSERT_EQ(s.strongest_pairs.size(), 3u);
  EXPECT_EQ(s.strongest_pairs[0].b, 1);
  EXPECT_EQ(s.strongest_pairs[1].b, 3);
  EXPECT_EQ(s.strongest_pairs[2].b, 2);
  EXPECT_DOUBLE_EQ(s.strongest_pairs[0].lift, (1 / 3.0) / (2 / 3.0 * 1 / 3.0));
  EXPECT_DOUBLE_EQ(s.strongest_pairs[0].share, 1 / 3.0);
  EXPECT_DOUBLE_EQ(s.top_pairs_share.mean(), 1 / 3.0);  // 1 % of 6 pairs is 1 pair of 3 seen
}

TEST(Statistics, VariationIsTheDeviationOverTheMean) {
  const TraceInfo info{"uneven", "toy", 4, 1, {0}, Phase::decode, ""};
  StepArrays step;
  step.ids = IdArray(4, {0, 0, 0, 1, 1, 2});  // 3, 2, 1, 0 of a mean of 1.5
  step.sequence_lengths = {6};
  const auto s = measure(RoutingTrace(info, {make_step(info, std::move(step))}));
  EXPECT_DOUBLE_EQ(s.expert_load_cv.mean(), std::sqrt((2.25 + 0.25 + 0.25 + 2.25) / 4) / 1.5);
}

TEST(Statistics, PairsOfTheLargestLiftAreNamed) {
  // Experts 4 and 5 come together in one token of 1000, which is chance; 2 and 3 always do.
  const TraceInfo info{"pairs", "toy", 6, 2, {0}, Phase::decode, ""};
  StepArrays step;
  std::vector<int> ids;
  for (int t = 0; t < 1000; ++t) {
    const bool rare = t == 0, joined = t % 5 == 0;
    ids.push_back(rare ? 4 : joined ? 2 : 0);
    ids.push_back(rare ? 5 : joined ? 3 : 1);
  }
  step.ids = IdArray(6, ids);
  step.sequence_lengths = {1000};
  const RoutingTrace trace(info, {make_step(info, std::move(step))});
  const auto pairs = measure(trace).strongest_pairs;
  ASSERT_EQ(pairs.size(), 2u);
  EXPECT_EQ(pairs[0].a, 2);
  EXPECT_NEAR(pairs[0].lift, 5, 0.1);
  EXPECT_EQ(pairs[1].a, 0);
}

TEST(Statistics, OverlapStopsAtSequences) {
  const TraceInfo info{"overlap", "toy", 4, 2, {0}, Phase::decode, ""};
  StepArrays step;
  step.ids = IdArray(4, {0, 1, 1, 0, 1, 2, 1, 2});  // shares 2, then 1, then a new sequence
  step.sequence_lengths = {3, 1};
  const RoutingTrace trace(info, {make_step(info, std::move(step))});
  EXPECT_DOUBLE_EQ(measure(trace).previous_token_overlap.mean(), 3 / 4.0);
}

TEST(Statistics, StepsAreCompared) {
  const TraceInfo info{"steps", "toy", 4, 1, {0}, Phase::training, ""};
  const auto step = [&](std::int64_t number, std::initializer_list<int> ids) {
    StepArrays arrays;
    arrays.number = number;
    arrays.ids = IdArray(4, ids);
    arrays.sequence_lengths = {static_cast<std::int32_t>(ids.size())};
    return make_step(info, std::move(arrays));
  };
  const RoutingTrace trace(info, {step(1, {0, 1}), step(5, {0, 1, 0, 1}), step(9, {0, 2})});
  const auto s = measure(trace);
  ASSERT_EQ(s.step_similarity.size(), 2u);
  EXPECT_EQ(s.step_similarity[1].from, 5);
  EXPECT_EQ(s.step_similarity[1].to, 9);
  EXPECT_NEAR(s.step_similarity[0].cosine, 1, 1e-12);
  EXPECT_NEAR(s.step_similarity[0].shared_load, 1, 1e-12);
  EXPECT_NEAR(s.step_similarity[1].cosine, 0.5, 1e-12);
  EXPECT_NEAR(s.step_similarity[1].shared_load, 0.5, 1e-12);
}

TEST(Statistics, PageShowsTheMeanOfPairsOfStepsAndRanks) {
  const auto s = [] {
    TraceStatistics some = measure(tiny_trace(), {.ranks = {2}});
    some.step_similarity = {{1, 5, 1, 0.5}, {5, 9, 0.5, 0.25}};
    return some;
  }();
  const std::string page = statistics_text(tiny_trace(), s);
  for (const char* const row :
       {"trace", "model", "phase", "experts", "layers", "steps", "tokens", "sequences",
        "source ranks", "gate weights", "hash", "counts crc32, fnv1a64", "expert max/mean",
        "expert load CV", "previous-token overlap", "strongest 1 % of pairs"}) {
    EXPECT_THAT("\n" + page, ::testing::HasSubstr(std::string("\n") + row + " ")) << row;
  }
  EXPECT_THAT(page, testing::HasSubstr("cosine 0.7500, shared load 0.3750 (mean of 2 pairs)\n"));
  EXPECT_THAT(page,
              testing::HasSubstr("rank max/mean  largest layer\n     2          1.3333         "
                                 "1.0000         1.0000\n"));
  EXPECT_THAT(statistics_text(tiny_trace(), measure(tiny_trace(), {.ranks = {1}})),
              testing::Not(testing::HasSubstr("between steps")));
}

TEST(Statistics, SimilarityOfStepsIsTheMeanOverLayers) {
  const TraceInfo info{"steps", "toy", 4, 1, {0, 1}, Phase::training, ""};
  const auto step = [&](std::int64_t number, std::initializer_list<int> ids) {
    StepArrays arrays;
    arrays.number = number;
    arrays.ids = IdArray(4, ids);
    arrays.sequence_lengths = {2};
    return make_step(info, std::move(arrays));
  };
  // Layer 0: experts 0 and 0, then 0 and 1. Layer 1: 2 and 3 both times.
  const RoutingTrace trace(info, {step(0, {0, 0, 2, 3}), step(1, {0, 1, 2, 3})});
  const auto s = measure(trace);
  ASSERT_EQ(s.step_similarity.size(), 1u);
  EXPECT_NEAR(s.step_similarity[0].shared_load, (0.5 + 1) / 2, 1e-12);
  EXPECT_NEAR(s.step_similarity[0].cosine, (std::sqrt(0.5) + 1) / 2, 1e-12);
}

TEST(Statistics, ManyRanksCountLikeFew) {  // beyond 64 ranks distinct ranks are counted another way
  const TraceInfo info{"wide", "toy", 512, 3, {0}, Phase::synthetic, ""};
  StepArrays step;
  step.ids = IdArray(512, {0, 1, 511, 0, 4, 8, 5, 6, 7});
  step.sequence_lengths = {3};
  const RoutingTrace trace(info, {make_step(info, std::move(step))});
  const auto s = measure(trace, {.ranks = {64, 128, 256}});
  EXPECT_DOUBLE_EQ(s.ranks[0].distinct_ranks, (2 + 2 + 1) / 3.0);  // blocks of 8
  EXPECT_DOUBLE_EQ(s.ranks[1].distinct_ranks, (2 + 3 + 1) / 3.0);  // blocks of 4
  EXPECT_DOUBLE_EQ(s.ranks[2].distinct_ranks, (2 + 3 + 2) / 3.0);  // blocks of 2
}

TEST(Statistics, RefusesAnEmptyTrace) {
  EXPECT_EQ(error_of([] { measure(RoutingTrace(tiny_trace().info(), {})); }),
            "error: trace 'tiny' is empty\n");
}

TEST(Statistics, RefusesRanksThatDoNotDivide) {
  EXPECT_EQ(error_of([] { measure(tiny_trace(), {.ranks = {3}}); }),
            "error: 4 experts cannot be placed in equal blocks on 3 ranks\n"
            "hint: a number of ranks must divide the experts\n");
}

TEST(Statistics, PageShowsSourceRanksAsRecorded) {
  const TraceInfo info{"ranks", "toy", 4, 1, {0}, Phase::training, ""};
  StepArrays arrays;
  arrays.ids = IdArray(4, {0, 1, 2, 3});
  arrays.sequence_lengths = {2, 2};
  arrays.source_ranks = {0, 0, 0, 1};
  const RoutingTrace trace(info, {make_step(info, std::move(arrays))});
  const auto page = statistics_text(trace, measure(trace));
  EXPECT_THAT(page, testing::HasSubstr("source ranks            2, 1 to 3 tokens each\n"));
  EXPECT_THAT(page, testing::HasSubstr("gate weights            not recorded\n"));
  EXPECT_THAT(statistics_json(trace, measure(trace)), testing::StartsWith("{\n \""));
}

RoutingTrace trace_of_ranks(const std::vector<std::vector<std::int32_t>>& steps) {
  const TraceInfo info{"ranks", "toy", 4, 1, {0}, Phase::training, ""};
  std::vector<std::shared_ptr<const TraceStep>> made;
  for (const auto& ranks : steps) {
    StepArrays arrays;
    arrays.number = static_cast<std::int64_t>(made.size());
    arrays.ids = IdArray(4, {0, 1});
    arrays.sequence_lengths = {2};
    arrays.source_ranks = ranks;
    made.push_back(make_step(info, std::move(arrays)));
  }
  return {info, std::move(made)};
}

TEST(Statistics, StepsWithoutSourceRanksAreLeftOut) {
  EXPECT_THAT(measure(trace_of_ranks({{}, {2, 0}})).tokens_of_source_rank,
              testing::ElementsAre(1, 0, 1));
}

TEST(Statistics, SourceRanksThatCannotBeAreRefused) {
  const auto refused = testing::HasSubstr("trace 'ranks', step 1: source ranks that cannot be");
  EXPECT_THAT(error_of([] { measure(trace_of_ranks({{0, 0}, {0, -1}})); }), refused);
  EXPECT_THAT(error_of([] { measure(trace_of_ranks({{0, 0}, {0, 1 << 20}})); }), refused);
}

}  // namespace
}  // namespace moesim
