// SPDX-License-Identifier: Apache-2.0
// Which tokens of a trace the sequences of a serving pass are.
#include "sim/planner/iteration/serving_batches.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "sim/planner/iteration/stage_space.h"
#include "tests/planner/iteration/fixtures.h"

namespace moesim {
namespace {

ServingSpec pass_of(std::vector<std::vector<SequenceStep>> ranks) {
  ServingSpec pass;
  pass.batch = {std::move(ranks)};
  return pass;
}

/// Two ranks of attention.
Grid two_ranks() { return Grid({.ep = 2, .etp = 1}, 2); }

TraceInfo one_layer() {
  TraceInfo info;
  info.experts = 32;
  info.top_k = 4;
  info.layers = {1};
  return info;
}

/// How often each token is in a batch.
std::vector<int> times_played(const Batch& batch, int tokens) {
  std::vector<int> played(static_cast<std::size_t>(tokens));
  for (const auto& runs : batch.ranks) {
    for (const TokenRun& run : runs) {
      for (std::int64_t t = run.first; t < run.first + run.count; ++t) {
        ++played[static_cast<std::size_t>(t)];
      }
    }
  }
  return played;
}

TEST(ServingBatch, TokensOfASequenceAreThoseAtItsPositions) {
  const RoutingTrace trace = balanced_trace(one_layer(), 30, 10);  // three sequences of 10
  const ServingSpec pass = pass_of({{{.context = 4, .tokens = 1, .count = 3}},
                                    {{.context = 9, .tokens = 3, .count = 1, .request = 1}}});
  const Batch batch = serving_batch(trace, 0, two_ranks(), pass);
  ASSERT_EQ(batch.ranks.size(), 2u);
  EXPECT_EQ(batch.ranks[0], (std::vector<TokenRun>{{4, 1}, {14, 1}, {24, 1}}));
  EXPECT_EQ(batch.ranks[1], (std::vector<TokenRun>{{19, 1}, {10, 2}}));  // wraps round
}

TEST(ServingBatch, TokensOfARequestAreItsOwnOnAnyRank) {
  const RoutingTrace trace = balanced_trace(one_layer(), 30, 10);
  const Batch batch =
      serving_batch(trace, 0, two_ranks(),
                    pass_of({{{.context = 4, .tokens = 1, .count = 2, .request = 2}},
                             {{.context = 5, .tokens = 2, .count = 1, .request = 0},
                              {.context = 8, .tokens = 1, .count = 1}}}));
  EXPECT_EQ(batch.ranks[0], (std::vector<TokenRun>{{24, 1}, {24, 1}}));
  EXPECT_EQ(batch.ranks[1], (std::vector<TokenRun>{{5, 2}, {9, 1}}));  // the fourth sequence
}

TEST(StageSpace, OfAPassHasTheWorkOfTheRankWithTheMostTokens) {
  const MoeModel model = test::whole(2);
  const Topology topology = test::h100_nodes(1);
  const Grid grid({.ep = 8, .etp = 1}, 8);
  for (const std::size_t most : {0, 3, 7}) {
    Spec spec;
    spec.spec.serving.emplace().batch.ranks.assign(8, {{.context = 5, .tokens = 2, .count = 1}});
    spec.spec.serving->batch.ranks[most] = {{.context = 9, .tokens = 2, .count = 10}};
    Plan plan;
    const StageSpace stage(plan, grid, 0, model, spec, topology);
    EXPECT_EQ(stage.shard().tokens, 20);
    EXPECT_EQ(stage.activations(), Bytes(20 * 1024 * 2));
    EXPECT_EQ(stage.served(GpuId(static_cast<std::int64_t>(most)), 0).tokens, 20);
    EXPECT_EQ(stage.served(GpuId(5), 0).tokens, 2);
  }
}

TEST(ServingBatch, SequencesOfOneRecordedSequenceAreDifferentTokens) {
  const RoutingTrace trace = balanced_trace(one_layer(), 128, 16);
  const Batch batch =
      serving_batch(trace, 0, two_ranks(), pass_of({{{.context = 3, .tokens = 1, .count = 64}}}));
  EXPECT_EQ(std::ranges::max(times_played(batch, 128)), 1);
}

TEST(ServingBatch, BalancedTokensOfAMixedPassArePlayedOnce) {
  // Graphs are captured for 8 tokens, which only the second rank has: it only decodes.
  ServingSpec pass = pass_of({{{.context = 0, .tokens = 5, .count = 1}, {.context = 7, .count = 3}},
                              {{.context = 9, .count = 6}}});
  pass.pad = {8};
  EXPECT_EQ(new_tokens(pass, 2), (std::vector<std::int32_t>{5, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}));
  for (const ServingOverlap overlap : {ServingOverlap::none, ServingOverlap::two_batch}) {
    pass.overlap = overlap;
    const std::vector<std::int32_t> lengths = new_tokens(pass, 2);
    const int tokens = std::accumulate(lengths.begin(), lengths.end(), 0);
    const RoutingTrace trace = balanced_trace(one_layer(), lengths);
    std::vector<int> played(static_cast<std::size_t>(tokens));
    for (const BatchPart& part : parts_of(pass, true)) {
      const std::vector<int> of_part =
          times_played(serving_batch(trace, 0, two_ranks(), pass, part), tokens);
      for (std::size_t t = 0; t < played.size(); ++t) played[t] += of_part[t];
    }
    EXPECT_EQ(played, std::vector<int>(played.size(), 1));
  }
}

TEST(ServingBatch, DraftsFollowTheTokensOfTheirSequence) {
  ServingSpec pass = pass_of({{{.context = 4, .tokens = 3, .count = 2}}});
  pass.drafts = 2;
  pass.overlap = ServingOverlap::two_batch;
  const std::vector<BatchPart> parts = parts_of(pass, true);
  EXPECT_EQ(parts, (std::vector<BatchPart>{{PartRuns::model, 0, 2},
                                           {PartRuns::model, 1, 2},
                                           {.runs = PartRuns::first_draft},
                                           {.runs = PartRuns::next_draft, .draft = 1}}));
  EXPECT_EQ(parts_of(pass, false).size(), 2u);  // nobody drafts
  using Runs = std::vector<TokenRun>;
  const Runs expected[] = {{{4, 3}}, {{14, 3}}, {{4, 3}, {14, 3}}, {{7, 1}, {17, 1}}};
  const RoutingTrace trace = balanced_trace(one_layer(), 40, 10);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto list = list_of(pass, 0, parts[i]);
    EXPECT_EQ(sequences_of(list), i < 2 ? 1 : 2);
    const Batch batch = serving_batch(trace, 0, Grid({.ep = 1}, 1), pass, parts[i]);
    EXPECT_EQ(batch.ranks, std::vector<Runs>{expected[i]}) << i;
  }
}

}  // namespace
}  // namespace moesim
