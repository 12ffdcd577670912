// SPDX-License-Identifier: Apache-2.0
#include "sim/trace/batches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/error_of.h"
#include "tests/trace/samples.h"
#include "tests/trace/scratch.h"

namespace moesim {
namespace {

/// "0+4 8+2 | 4+4": the runs of each rank as first+count.
std::string text(const Batch& batch) {
  std::string out;
  for (std::size_t r = 0; r < batch.ranks.size(); ++r) {
    if (r > 0) out += " |";
    for (const auto& run : batch.ranks[r]) {
      out += (out.empty() ? "" : " ") + std::to_string(run.first) + "+" + std::to_string(run.count);
    }
  }
  return out;
}

TEST(Batches, WholeSequencesGoToTheRankWithTheFewestTokens) {
  const auto trace = trace_of_sequences({{4, 2, 1, 3}});  // to ranks 0, 1, 1, 1
  const auto batches = make_batches(trace, {.ranks = 2});
  ASSERT_EQ(batches.batches.size(), 1u);
  EXPECT_EQ(batches.tokens_per_rank, 4);
  EXPECT_EQ(text(batches.batches[0]), "0+4 | 4+4");
  EXPECT_EQ(batches.unused_tokens, 2);
}

TEST(Batches, TiesGoToTheLowestRank) {
  const auto batches = make_batches(trace_of_sequences({{1, 1, 1, 1, 1, 1}}), {.ranks = 3});
  EXPECT_EQ(text(batches.batches[0]), "0+1 3+1 | 1+1 4+1 | 2+1 5+1");
}

TEST(Batches, TokensOfARankAreCutIntoBatches) {
  const auto batches =
      make_batches(trace_of_sequences({{5, 5}}), {.ranks = 2, .tokens_per_rank = 2});
  ASSERT_EQ(batches.batches.size(), 2u);
  EXPECT_EQ(text(batches.batches[0]), "0+2 | 5+2");
  EXPECT_EQ(text(batches.batches[1]), "2+2 | 7+2");
  EXPECT_EQ(batches.unused_tokens, 2);
}

TEST(Batches, EveryStepIsSpreadByItselfInBatchesOfOneSize) {
  const auto batches = make_batches(trace_of_sequences({{2, 2}, {3, 5}}), {.ranks = 2});
  ASSERT_EQ(batches.batches.size(), 2u);
  EXPECT_EQ(batches.batches[0].step, 0);
  EXPECT_EQ(batches.batches[1].step, 1);
  EXPECT_EQ(batches.batches[1].tokens(), 4);
  EXPECT_EQ(batches.unused_tokens, 4);
}

TEST(Batches, RepeatPlaysTheSequencesAgain) {
  const auto batches = make_batches(trace_of_sequences({{3}}), {.ranks = 2, .repeat = 2});
  EXPECT_EQ(text(batches.batches[0]), "0+3 | 0+3");
}

TEST(Batches, AWindowIsThatPartOfAll) {
  const auto trace = trace_of_sequences({{4, 2, 1, 3}, {7, 1, 1, 5, 2}});
  for (const int ranks : {1, 2, 3}) {
    for (const int repeat : {1, 2, 5, 16, 33}) {
      const BatchOptions options{ranks, 3, repeat};
      if (ranks == 3 && repeat == 1) continue;  // too few tokens
      const auto all = make_batches(trace, options);
      const auto count = std::ssize(all.batches);
      for (std::int64_t first = 0; first < count; first += 3) {
        const auto some = make_some_batches(trace, options, {first, first + 4});
        EXPECT_EQ(some.count, count);
        EXPECT_EQ(some.batches.unused_tokens, all.unused_tokens);
        ASSERT_EQ(std::ssize(some.batches.batches), std::min<std::int64_t>(4, count - first));
        for (std::size_t i = 0; i < some.batches.batches.size(); ++i) {
          const Batch &one = some.batches.batches[i], &same = all.batches[first + i];
          EXPECT_EQ(one.step, same.step);
          EXPECT_EQ(text(one), text(same));
        }
      }
    }
  }
}

TEST(Batches, AnEmptyWindowHasNone) {
  const auto trace = trace_of_sequences({{4, 2, 1, 3}});
  for (const std::int64_t at : {0, 1}) {
    const auto none = make_some_batches(trace, {2, 2, 1}, {at, at});
    EXPECT_TRUE(none.batches.batches.empty()) << at;
    EXPECT_EQ(none.count, 2);
  }
  EXPECT_EQ(make_some_batches(trace, {2, 2, 1}, {1, -1}).batches.batches.size(), 1u);
}

TEST(Batches, PartsOfRunsDifferByATokenAtMost) {
  const std::vector<TokenRun> runs = {{0, 4}, {8, 3}};
  const auto part = [&](int i, int parts) { return text(Batch{0, {part_of(runs, i, parts)}}); };
  EXPECT_EQ(part(0, 1), "0+4 8+3");
  EXPECT_EQ(part(0, 3), "0+3");
  EXPECT_EQ(part(1, 3), "3+1 8+1");
  EXPECT_EQ(part(2, 3), "9+2");
  EXPECT_EQ(part(7, 8), "");
}

/// Repeats, which are many, are neither made nor played.
TEST(Batches, AMillionRepeatsCostNothing) {
  std::vector<std::int32_t> lengths;
  for (int s = 0; s < 64; ++s) lengths.push_back(1 + s % 5);
  const auto trace = trace_of_sequences({lengths});
  const auto some = make_some_batches(trace, {2, 64, 1 << 20}, {0, 2});
  ASSERT_EQ(some.batches.batches.size(), 2u);
  EXPECT_EQ(text(some.batches.batches[1]), text(make_batches(trace, {2, 64, 3}).batches[1]));
  const std::int64_t played = trace.total_tokens() << 20;
  EXPECT_NEAR(static_cast<double>(some.count), static_cast<double>(played) / 128, 1);
  EXPECT_EQ(some.count * 128 + some.batches.unused_tokens, played);
}

TEST(Batches, TokensAreConservedOnAnyNumberOfRanks) {
  std::vector<std::int32_t> lengths;
  for (int s = 0; s < 700; ++s) lengths.push_back(1 + s * 37 % 50);
  const auto trace = trace_of_sequences({lengths, lengths});
  for (const int ranks : {8, 32, 256}) {
    for (const int repeat : {1, 3}) {
      const auto batches = make_batches(trace, {.ranks = ranks, .repeat = repeat});
      std::int64_t used = 0;
      std::vector<int> plays(static_cast<std::size_t>(trace.step(0).tokens()));
      for (const auto& batch : batches.batches) {
        ASSERT_EQ(batch.ranks.size(), static_cast<std::size_t>(ranks));
        EXPECT_EQ(batch.tokens(), ranks * batches.tokens_per_rank);
        used += batch.tokens();
        if (batch.step != 0) continue;
        for (const auto& runs : batch.ranks) {
          for (const auto& run : runs) {
            for (std::int64_t t = 0; t < run.count; ++t) {
              ++plays.at(static_cast<std::size_t>(run.first + t));
            }
          }
        }
      }
      EXPECT_EQ(used + batches.unused_tokens, repeat * trace.total_tokens());
      for (const int n : plays) EXPECT_LE(n, repeat);
    }
  }
}

TEST(Batches, RecordedSourceRanksDoNotMatter) {
  const TraceInfo info{"ranks", "toy", 4, 1, {0}, Phase::training, ""};
  StepArrays arrays;
  arrays.ids = IdArray(4, {0, 1, 2, 3});
  arrays.sequence_lengths = {2, 2};
  arrays.source_ranks = {5, 5, 5, 5};
  const RoutingTrace trace(info, {make_step(info, std::move(arrays))});
  EXPECT_EQ(text(make_batches(trace, {.ranks = 2}).batches[0]), "0+2 | 2+2");
}

TEST(Batches, ADrawnTraceMayHaveMoreSequences) {
  TraceInfo info;
  info.model = info.name = "drawn";
  info.experts = 4;
  info.top_k = 1;
  info.layers = {0};
  info.phase = Phase::synthetic;
  StepArrays arrays;
  arrays.ids = IdArray(4, {0, 1, 2, 3});
  arrays.sequence_lengths = {4};
  const RoutingTrace trace(info, {make_step(info, std::move(arrays))});
  EXPECT_THAT(error_of([&] { make_batches(trace, {.ranks = 2, .tokens_per_rank = 2}); }),
              testing::HasSubstr("hint: draw one sequence for each rank: sequences=2; or `repeat"));
}

TEST(Batches, ATraceTooShortNamesTheRepeatThatIsEnough) {
  const auto trace = trace_of_sequences({{4, 2, 1, 3}});
  EXPECT_EQ(
      error_of([&] { make_batches(trace, {.ranks = 8}); }),
      "error: trace 'sequences' is too short: step 0 (10 tokens in 4 sequences) leaves rank 4 "
      "of 8 with 0 tokens, fewer than one batch of 1\n"
      "hint: `repeat: 2` plays its sequences often enough, or use fewer ranks\n");
  EXPECT_EQ(
      error_of([&] { make_batches(trace, {.ranks = 2, .tokens_per_rank = 12, .repeat = 2}); }),
      "error: trace 'sequences' is too short: step 0 (10 tokens in 4 sequences played 2 times) "
      "leaves rank 0 of 2 with 9 tokens, fewer than one batch of 12\n"
      "hint: `repeat: 3` plays its sequences often enough, or use fewer ranks or tokens_per_rank "
      "of "
      "at most 9\n");
  EXPECT_NO_THROW(make_batches(trace, {.ranks = 2, .tokens_per_rank = 12, .repeat = 3}));
}

TEST(Batches, AnAbsurdBatchIsRefusedAtOnce) {
  const auto trace = trace_of_sequences({std::vector<std::int32_t>(1000, 1)});
  EXPECT_EQ(
      error_of([&] { make_batches(trace, {.ranks = 8, .tokens_per_rank = 1000000000}); }),
      "error: trace 'sequences' is too short: step 0 (1000 tokens in 1000 sequences) leaves rank "
      "0 of 8 with 125 tokens, fewer than one batch of 1000000000\n"
      "hint: no repeat is enough; use fewer ranks or tokens_per_rank of at most 125\n");
}

TEST(Batches, RefusesNonsense) {
  EXPECT_EQ(error_of([] { make_batches(RoutingTrace(tiny_trace().info(), {}), {}); }),
            "error: trace 'tiny' is empty\n");
  const auto trace = tiny_trace();
  EXPECT_EQ(error_of([&] { make_batches(trace, {.ranks = 0}); }),
            "error: a trace cannot be spread over 0 ranks\n");
  EXPECT_EQ(error_of([&] { make_batches(trace, {.repeat = 0}); }),
            "error: repeat is 0; it is from 1 to 1048576\n");
  EXPECT_EQ(error_of([&] { make_batches(trace, {.tokens_per_rank = 0}); }),
            "error: tokens_per_rank is 0; it is at least 1\n");
}

}  // namespace
}  // namespace moesim
