// SPDX-License-Identifier: Apache-2.0
// One rank's choice of the next pass, pass by pass.
#include "sim/serving/engine/rank_scheduler.h"

#include <gtest/gtest.h>

namespace moesim {
namespace {

ServingSequence sequence_of(std::int64_t request, std::int64_t prompt, std::int64_t output) {
  ServingSequence sequence;
  sequence.request = request;
  sequence.known = prompt;
  sequence.output = output;
  return sequence;
}

/// 200 blocks of a token, of which so many are kept for answers.
EngineOptions keeping(const ReserveOptions& reserve) {
  EngineOptions options;
  options.kv.block = 1;
  options.kv.capacity = 200;
  options.kv.reserve = reserve;
  return options;
}

/// The pass, from 1 on, that takes a prompt of 20 tokens with an answer of 40 next to one of 100
/// with an answer of 60, which begins first; 0: none of the first ten.
int pass_of_second(const ReserveOptions& reserve) {
  RankScheduler rank(keeping(reserve), 0);
  rank.submit(sequence_of(0, 100, 60));
  for (int pass = 1; pass <= 10; ++pass) {
    rank.plan();
    if (rank.running().size() > 1) return pass;
    std::vector<PassGain> gains;
    rank.commit(gains);
    if (pass == 1) rank.submit(sequence_of(1, 20, 40));
  }
  return 0;
}

// Kept for answers, the two have 160 and 60 tokens. A quarter less after the first decode: 102 + 44
// of 58 that are left, and 20 + 30.
TEST(RankSchedulers, ReserveFallsWithPassesThatDecode) {
  EXPECT_EQ(pass_of_second({0, 0, 0}), 2);
  EXPECT_EQ(pass_of_second({1, 0, 4}), 3);
  EXPECT_EQ(pass_of_second({1, 0, 20}), 7) << "106 + 41 of 54, and 20 + 30";
  EXPECT_EQ(pass_of_second({1, 0, 0}), 0) << "it stays";
  EXPECT_EQ(pass_of_second({1, 1, 4}), 0) << "it is the least";
}

TEST(RankSchedulers, LoadIsWhatIsLeftToCompute) {
  RankScheduler rank(keeping({}), 0);
  rank.submit(sequence_of(0, 100, 60));
  EXPECT_EQ(rank.load({}).tokens, 160);
  rank.plan();
  std::vector<PassGain> gains;
  rank.commit(gains);
  rank.submit(sequence_of(1, 20, 40));
  const TargetLoad load = rank.load({});
  EXPECT_EQ(load.tokens, (1 + 59) + (20 + 40)) << "one token is known and not computed";
  EXPECT_EQ(load.waiting, 1);
  EXPECT_EQ(load.running, 1);
}

TEST(RankSchedulers, WhatComesComputedDecodesWithItsDrafts) {
  EngineOptions options = keeping({});
  options.drafts = 2;
  options.gained = {0, 0, 1};
  RankScheduler rank(options, 0);
  ServingSequence carried = sequence_of(0, 101, 60);
  carried.emitted = 1;
  carried.carried = 100;
  rank.submit(std::move(carried));
  ASSERT_EQ(rank.plan().size(), 1u);
  EXPECT_EQ(rank.entries()[0].tokens, 3);
  EXPECT_FALSE(rank.entries()[0].prompt);
}

TEST(RankSchedulers, AChunkGivesNoTokenAndHoldsNobodyUp) {
  EngineOptions options = keeping({});
  options.chunk = 50;
  RankScheduler rank(options, 0);
  rank.submit(sequence_of(0, 100, 2));
  rank.submit(sequence_of(1, 20, 2));
  ASSERT_EQ(rank.plan().size(), 2u);
  std::vector<PassGain> gains;
  rank.commit(gains);
  ASSERT_EQ(gains.size(), 1u);
  EXPECT_EQ(gains[0].request, 1);
  EXPECT_EQ(rank.counts().prompt_tokens, 70);
}

TEST(RankSchedulers, ThePassHasAsManyTokensAsAreAllowed) {
  EngineOptions options = keeping({});
  options.max_tokens = 21;
  RankScheduler rank(options, 0);
  rank.submit(sequence_of(0, 20, 2));
  rank.submit(sequence_of(1, 20, 2));
  ASSERT_EQ(rank.plan().size(), 2u);
  EXPECT_EQ(rank.entries()[1].tokens, 1);
}

TEST(RankSchedulers, ALostRankHasNothing) {
  RankScheduler rank(keeping({}), 0);
  rank.submit(sequence_of(0, 100, 60));
  rank.plan();
  std::vector<PassGain> gains;
  rank.commit(gains);
  rank.submit(sequence_of(1, 20, 40));
  rank.plan();
  const LostRank lost = rank.lose();
  EXPECT_EQ(lost.sequences.size(), 2u);
  EXPECT_EQ(lost.restarted, 1) << "the other one had nothing computed";
  EXPECT_EQ(lost.tokens, 100);
  EXPECT_TRUE(rank.entries().empty());
  EXPECT_TRUE(rank.idle());
  EXPECT_EQ(rank.kv().available(), 200);
}

TEST(RankSchedulers, CountsOfRanksAddUp) {
  RankCounts counts{1, 2, 3, 4, 5, 6, 7, 8};
  counts += {10, 20, 30, 40, 50, 60, 70, 80};
  EXPECT_EQ(counts.prompt_tokens, 11);
  EXPECT_EQ(counts.cached_tokens, 22);
  EXPECT_EQ(counts.decode_tokens, 33);
  EXPECT_EQ(counts.gained_tokens, 44);
  EXPECT_EQ(counts.preemptions, 55);
  EXPECT_EQ(counts.lost_tokens, 66);
  EXPECT_EQ(counts.asked_tokens, 77);
  EXPECT_EQ(counts.hit_tokens, 88);
}

}  // namespace
}  // namespace moesim
