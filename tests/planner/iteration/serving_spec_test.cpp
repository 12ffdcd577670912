// SPDX-License-Identifier: Apache-2.0
// What a pass of a serving engine is asked to be: parts of its batch, padding and graphs.
#include <gtest/gtest.h>

#include "sim/planner/iteration/serving_batches.h"

namespace moesim {
namespace {

TEST(ServingSpecs, TwoHalvesOfABatchHaveAllOfIt) {
  const std::vector<SequenceStep> list = {{.context = 10, .tokens = 1, .count = 7},
                                          {.context = 0, .tokens = 100, .count = 1},
                                          {.context = 30, .tokens = 3, .count = 4}};
  for (const int parts : {1, 2, 3}) {
    std::int64_t tokens = 0, sequences = 0;
    for (int i = 0; i < parts; ++i) {
      tokens += tokens_of(part_of(list, i, parts));
      sequences += sequences_of(part_of(list, i, parts));
    }
    EXPECT_EQ(tokens, 7 + 100 + 12);
    EXPECT_EQ(sequences, 12);
  }
  EXPECT_EQ(tokens_of(part_of({{.context = 4, .tokens = 1, .count = 9}}, 0, 2)), 4);
}

TEST(ServingSpecs, PadsADecodeToTheNextCapturedSize) {
  const std::vector<SequenceStep> list = {{.context = 10, .tokens = 1, .count = 9}};
  EXPECT_EQ(tokens_of(padded(list, {8, 16})), 16);
  EXPECT_EQ(padded(list, {1, 9, 16}), list);
  EXPECT_EQ(padded(list, {4}), list);  // larger than all
  const std::vector<SequenceStep> prefill = {{.context = 0, .tokens = 9, .count = 1}};
  EXPECT_EQ(padded(prefill, {16}), prefill);
}

ServingSpec of_ranks(std::vector<std::vector<SequenceStep>> ranks) {
  ServingSpec pass;
  pass.batch.ranks = std::move(ranks);
  return pass;
}

TEST(ServingSpecs, IsAGraphIfItsTokensAreCaptured) {
  ServingSpec pass = of_ranks(
      {{{.context = 10, .tokens = 1, .count = 3}}, {{.context = 10, .tokens = 1, .count = 7}}});
  EXPECT_TRUE(pass.in_graph());
  pass.pad = {1, 2, 4};
  EXPECT_FALSE(pass.in_graph()) << "7 tokens are more than 4";
  pass.overlap = ServingOverlap::two_batch;
  EXPECT_TRUE(pass.in_graph()) << "of 3 and 4";
  pass.pad = {8};
  pass.graphs = false;
  EXPECT_FALSE(pass.in_graph());
}

TEST(ServingSpecs, SplitsBatchesThatHaveEnough) {
  ServingSpec pass = of_ranks(
      {{{.context = 10, .tokens = 1, .count = 64}}, {{.context = 10, .tokens = 1, .count = 31}}});
  EXPECT_EQ(pass.turns(), 1);
  pass.overlap = ServingOverlap::three_batch;
  EXPECT_EQ(pass.turns(), 3);
  pass.overlap_from = {.decode = 32, .prompts = 512};
  EXPECT_EQ(pass.turns(), 1) << "the second rank has 31 tokens";
  pass.batch.ranks[1][0].count = 32;
  EXPECT_EQ(pass.turns(), 3);
  pass.batch.ranks[1].push_back({.context = 0, .tokens = 479, .count = 1});
  EXPECT_EQ(pass.turns(), 1) << "with a prompt the first rank has too few";
  pass.batch.ranks[0].push_back({.context = 0, .tokens = 448, .count = 1});
  EXPECT_EQ(pass.turns(), 1) << "511 tokens";
  pass.batch.ranks[1].back().tokens = 480;
  EXPECT_EQ(pass.turns(), 3);
  pass.attention_ranks = 1;
  pass.batch.ranks[1].clear();
  EXPECT_EQ(pass.turns(), 3) << "the second only computes experts";
  EXPECT_EQ(of_ranks({{{.context = 9, .count = 1}}}).turns(), 1);
}

TEST(ServingSpecs, OfOneSequencePerRankIsNotSplit) {
  ServingSpec pass = of_ranks({{{.context = 9, .count = 1}}, {{.context = 9, .count = 1}}});
  pass.overlap = ServingOverlap::two_batch;
  EXPECT_EQ(parts_of(pass, false).size(), 1U);
  pass.batch.ranks[1].front().count = 2;
  EXPECT_EQ(parts_of(pass, false).size(), 2U);
}

}  // namespace
}  // namespace moesim
