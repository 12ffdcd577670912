// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "sim/planner/iteration/alike_ranks.h"
#include "sim/trace/id_counts.h"
#include "tests/planner/iteration/fixtures.h"

namespace moesim {
namespace {

TEST(BalancedTrace, ChoosesDifferentExpertsAllAlike) {
  const std::int64_t tokens = 20'000;
  const RoutingTrace trace = test::tokens_for(test::tiny(), tokens, 1000);
  for (int layer = 0; layer < 4; ++layer) {
    const IdRows ids = trace.step(0).ids(layer);
    std::vector<int> counts(32);
    for (std::int64_t t = 0; t < tokens; ++t) {
      std::set<int> of_token;
      for (int k = 0; k < 4; ++k) {
        ++counts[static_cast<std::size_t>(ids.at(t, k))];
        of_token.insert(ids.at(t, k));
      }
      ASSERT_EQ(of_token.size(), 4u);
    }
    // 2,500 of each; six standard deviations are 280.
    EXPECT_NEAR(*std::ranges::min_element(counts), 2500, 280);
    EXPECT_NEAR(*std::ranges::max_element(counts), 2500, 280);
  }
  EXPECT_EQ(trace.step(0).sequence_lengths().size(), 20u);
}

TEST(BalancedTrace, OfFewTokensIsTheBeginningOfThatOfMany) {
  for (const std::int64_t few : {1, 100, 600, 300}) {  // longer and shorter than what is kept
    const RoutingTrace all = test::tokens_for(test::tiny(), 600, 600);
    const RoutingTrace trace = test::tokens_for(test::tiny(), few, few);
    EXPECT_EQ(trace.step(0).tokens(), few);
    for (int layer = 0; layer < 4; ++layer) {
      const IdRows ids = trace.step(0).ids(layer), of_all = all.step(0).ids(layer);
      for (std::int64_t t = 0; t < few; ++t) {
        for (int k = 0; k < 4; ++k) ASSERT_EQ(ids.at(t, k), of_all.at(t, k));
      }
    }
  }
}

TEST(BalancedTrace, KeepsToTheGroupsOfTheGate) {
  const std::int64_t tokens = 20'000;
  TraceInfo info;
  info.experts = 32;
  info.top_k = 6;
  info.layers = {0};
  const RoutingTrace trace = balanced_trace(info, tokens, 1000, {8, 3});
  const IdRows ids = trace.step(0).ids(0);
  std::vector<int> counts(32);
  for (std::int64_t t = 0; t < tokens; ++t) {
    std::set<int> of_token, groups;
    for (int k = 0; k < 6; ++k) {
      of_token.insert(ids.at(t, k));
      groups.insert(ids.at(t, k) / 4);
      ++counts[static_cast<std::size_t>(ids.at(t, k))];
    }
    ASSERT_EQ(of_token.size(), 6u);
    ASSERT_EQ(groups.size(), 3u);
  }
  // 3,750 of each; six standard deviations are below 350.
  EXPECT_NEAR(*std::ranges::min_element(counts), 3750, 350);
  EXPECT_NEAR(*std::ranges::max_element(counts), 3750, 350);
}

/// [from][to] choices of the experts of a rank.
std::vector<std::vector<int>> sent(const RoutingTrace& trace, const AlikeRanks& alike,
                                   std::int64_t sequence, int experts) {
  const auto ranks = static_cast<std::size_t>(alike.ranks());
  std::vector<std::vector<int>> counts(ranks, std::vector<int>(ranks));
  const IdRows ids = trace.step(0).ids(0);
  const std::int64_t of_rank = sequence * alike.micro_batch / alike.shares;
  for (std::int64_t t = 0; t < trace.step(0).tokens(); ++t) {
    const std::int64_t number = t / sequence, turn = number / alike.replicas;
    const std::int64_t within = turn % alike.micro_batch * sequence + t % sequence;
    const std::int64_t source = number % alike.replicas * alike.shares + within / of_rank;
    const auto from = static_cast<std::size_t>(alike.place[static_cast<std::size_t>(source)]);
    for (int k = 0; k < ids.top_k(); ++k) {
      const int rank = ids.at(t, k) / (experts / static_cast<int>(ranks));
      ++counts[from][static_cast<std::size_t>(rank)];
    }
  }
  return counts;
}

TEST(BalancedTrace, GivesAlikeRanksTheSame) {
  TraceInfo info;
  info.experts = 32;
  info.top_k = 4;
  info.layers = {0, 1};
  // Two hosts of four ranks, twice; every replica is two ranks, with two sequences of 64 tokens.
  AlikeRanks alike{{4, 2}, {}, 8, 2, 2};
  for (int source = 0; source < 16; ++source) alike.place.push_back(source % 8);
  const std::int64_t tokens = 3 * 8 * 2 * 64;  // three microbatches
  const RoutingTrace trace = balanced_trace(info, tokens, 64, {}, alike);
  const auto counts = sent(trace, alike, 64, info.experts);
  for (int from = 0; from < 8; ++from) {
    for (int to = 0; to < 8; ++to) {
      const int within = (to % 4 - from % 4 + 4) % 4, host = (to / 4 - from / 4 + 2) % 2;
      EXPECT_EQ(counts[static_cast<std::size_t>(from)][static_cast<std::size_t>(to)],
                counts[0][static_cast<std::size_t>(host * 4 + within)]);
    }
  }
  for (int layer = 0; layer < 2; ++layer) {
    const IdRows ids = trace.step(0).ids(layer);
    for (std::int64_t t = 0; t < tokens; ++t) {
      std::set<int> of_token;
      for (int k = 0; k < 4; ++k) of_token.insert(ids.at(t, k));
      ASSERT_EQ(of_token.size(), 4u);
    }
  }
}

TEST(BalancedTrace, KeepsAlikeRanksToTheGroupsOfTheGate) {
  TraceInfo info;
  info.experts = 32;
  info.top_k = 6;
  info.layers = {0};
  AlikeRanks alike{{2, 2, 2}, {0, 1, 2, 3, 4, 5, 6, 7}, 8, 1, 1};  // groups of two ranks
  const RoutingTrace trace = balanced_trace(info, 8 * 100, 100, {4, 2}, alike);
  const IdRows ids = trace.step(0).ids(0);
  for (std::int64_t t = 0; t < 800; ++t) {
    std::set<int> groups;
    for (int k = 0; k < 6; ++k) groups.insert(ids.at(t, k) / 8);
    ASSERT_EQ(groups.size(), 2u);
  }
}

TEST(AlikeRanks, ArePartsOfHostsAndGroups) {
  const Topology cluster = test::h100_nodes(4);
  IterationSpec spec;
  spec.parallel.ep = 32;
  spec.global_batch = 32;
  spec.sequence = 64;
  MoeModel model = test::whole(3);
  const auto parts = [&] {
    const auto alike = alike_ranks(shape_of(spec, 32, model), spec, cluster, model);
    return alike ? alike->parts : std::vector<int>();
  };
  EXPECT_EQ(parts(), (std::vector<int>{8, 4}));
  model.gate_groups = 8;
  model.gate_kept_groups = 4;
  EXPECT_EQ(parts(), (std::vector<int>{4, 2, 4}));
  model.gate_groups = 3;
  model.gate_kept_groups = 2;
  EXPECT_TRUE(parts().empty());
}

}  // namespace
}  // namespace moesim
