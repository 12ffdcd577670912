// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/affinity/occult.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "sim/base/error.h"
#include "sim/mechanism/owners.h"
#include "tests/mechanism/placement/affinity/chosen_tokens.h"
#include "tests/mechanism/placement/affinity/judged.h"
#include "tests/model/expected_distinct.h"

namespace moesim {
namespace {

using ::testing::ElementsAre;

std::vector<ExpertId> experts_of(std::initializer_list<int> ids) {
  std::vector<ExpertId> list;
  for (const int id : ids) list.emplace_back(id);
  return list;
}

std::vector<GpuId> blocks(int experts, int gpus) {
  return owners_of(contiguous_placement(experts, gpus, gpus).table());
}

TEST(OccultTest, PlacesThePublishedExample) {
  std::vector<std::vector<int>> chosen;
  repeat(chosen, {0, 2}, 10);
  repeat(chosen, {1, 3}, 8);
  repeat(chosen, {0, 1}, 1);
  const ChosenTokens tokens(4, chosen);
  const SlotTable table = place_occult(co_choices(tokens.rows(), 4), 2);
  EXPECT_THAT(table, ElementsAre(experts_of({0, 2}), experts_of({1, 3})));
  const std::vector<GpuId> source(19, GpuId(0));
  EXPECT_DOUBLE_EQ(token_copies(tokens.rows(), owners_of(table), source).gpus, 20.0 / 19);
  EXPECT_DOUBLE_EQ(token_copies(tokens.rows(), blocks(4, 2), source).gpus, 37.0 / 19);
}

TEST(OccultTest, BeginsWithThePairThatIsChosenMostThoughItsExpertsAreNeighbours) {
  std::vector<std::vector<int>> chosen;
  repeat(chosen, {2, 3}, 10);
  repeat(chosen, {0, 1}, 3);
  const ChosenTokens tokens(4, chosen);
  EXPECT_THAT(place_occult(co_choices(tokens.rows(), 4), 2),
              ElementsAre(experts_of({2, 3}), experts_of({0, 1})));
}

/// The algorithm as the reference words it, with means in floating point over explicit sets.
SlotTable place_by_the_book(const PairMatrix& co, int gpus) {
  const int n = co.experts();
  double largest = 0;
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < n; ++j)
      largest = std::max(largest, static_cast<double>(co.at(ExpertId(i), ExpertId(j))));
  const auto mean = [&](int e, const std::set<int>& set) {
    double sum = 0;
    for (const int q : set) sum += static_cast<double>(co.at(ExpertId(e), ExpertId(q))) / largest;
    return sum / static_cast<double>(set.size());
  };
  std::set<int> placed;
  SlotTable table;
  for (int gpu = 0; gpu < gpus; ++gpu) {
    std::set<int> members;
    if (gpu == 0) {
      int a = 0, b = 1;
      for (int i = 0; i < n; ++i)
        for (int j = i + 1; j < n; ++j)
          if (co.at(ExpertId(i), ExpertId(j)) > co.at(ExpertId(a), ExpertId(b))) a = i, b = j;
      members = {a};
      if (n / gpus > 1) members.insert(b);
    } else {
      int least = -1;
      for (int e = 0; e < n; ++e)
        if (placed.count(e) == 0 && (least < 0 || mean(e, placed) < mean(least, placed) - 1e-12))
          least = e;
      members = {least};
    }
    while (static_cast<int>(members.size()) < n / gpus) {
      int most = -1;
      for (int e = 0; e < n; ++e)
        if (placed.count(e) + members.count(e) == 0 &&
            (most < 0 || mean(e, members) > mean(most, members) + 1e-12))
          most = e;
      members.insert(most);
    }
    placed.insert(members.begin(), members.end());
    table.emplace_back();
    for (const int e : members) table.back().emplace_back(e);
  }
  return table;
}

TEST(OccultTest, RunningSumsDoWhatTheMeansDo) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const ChosenTokens tokens(24, uniform_tokens(24, 4, 60, seed));
    const PairMatrix co = co_choices(tokens.rows(), 24);
    for (const int gpus : {1, 2, 3, 6, 12, 24}) {
      ASSERT_EQ(place_occult(co, gpus), place_by_the_book(co, gpus)) << seed << " " << gpus;
    }
  }
}

TEST(OccultTest, FindsHiddenGroups) {
  // Tokens stay inside groups {e, e + 4, e + 8, e + 12}: after placement they need one GPU.
  std::vector<std::vector<int>> chosen;
  Random random(5);
  for (int t = 0; t < 300; ++t) {
    const int group = static_cast<int>(random.below(4)), skip = static_cast<int>(random.below(4));
    std::vector<int> token;
    for (int i = 0; i < 4; ++i)
      if (i != skip) token.push_back(group + 4 * i);
    chosen.push_back(token);
  }
  const ChosenTokens tokens(16, chosen);
  const auto gpu_of = owners_of(place_occult(co_choices(tokens.rows(), 16), 4));
  const std::vector<GpuId> source(300, GpuId(0));
  EXPECT_DOUBLE_EQ(token_copies(tokens.rows(), gpu_of, source).gpus, 1);
  EXPECT_DOUBLE_EQ(token_copies(tokens.rows(), blocks(16, 4), source).gpus, 3);
}

TEST(OccultTest, TheLocalGpuNeedsNoNetworkCopy) {
  const ChosenTokens tokens(4, {{0, 1}, {0, 2}, {2, 3}});
  const std::vector<GpuId> source = {GpuId(0), GpuId(1), GpuId(0)};
  const TokenCopies copies = token_copies(tokens.rows(), blocks(4, 2), source);
  EXPECT_DOUBLE_EQ(copies.gpus, 4.0 / 3);
  EXPECT_DOUBLE_EQ(copies.network, 2.0 / 3);  // none, GPU 0, GPU 1
}

TEST(OccultTest, UniformCopiesOfThePublishedModels) {
  struct Row {
    int experts, top_k;
    std::map<int, double> copies;
  };
  const std::vector<Row> rows = {
      {64, 8, {{2, 1.9952}, {4, 3.6590}, {8, 5.4326}, {16, 6.7509}, {32, 7.5556}, {64, 8}}},
      {64, 6, {{2, 1.9758}, {4, 3.3453}, {8, 4.5355}, {16, 5.3161}, {32, 5.7619}, {64, 6}}},
      {128, 8, {{2, 1.9938}, {4, 3.6290}, {8, 5.3394}, {16, 6.5965}, {32, 7.3594}, {64, 7.7795}}},
      {8, 2, {{2, 1.5714}, {4, 1.8571}, {8, 2}}},
  };
  for (const auto& row : rows) {
    for (const auto& [gpus, copies] : row.copies) {
      EXPECT_NEAR(expected_distinct(gpus, row.experts, row.top_k), copies, 5.001e-5)
          << row.experts << "/" << row.top_k << " on " << gpus;
    }
  }
}

TEST(OccultTest, MeasuredCopiesOfUniformTokensMeetTheFormula) {
  const int count = 20'000;
  const ChosenTokens tokens(64, uniform_tokens(64, 8, count, 7));
  const std::vector<GpuId> source(static_cast<std::size_t>(count), GpuId(3));
  const TokenCopies copies = token_copies(tokens.rows(), blocks(64, 8), source);
  EXPECT_NEAR(copies.gpus, 5.4326, 0.03);
  EXPECT_NEAR(copies.network, 5.4326 * 7 / 8, 0.03);
}

/// The k best scores, by falling score.
std::vector<ExpertId> ranked_top(const std::vector<float>& scores, int k) {
  std::vector<ExpertId> order;
  for (std::size_t e = 0; e < scores.size(); ++e) order.emplace_back(static_cast<std::int64_t>(e));
  std::stable_sort(order.begin(), order.end(),
                   [&](ExpertId a, ExpertId b) { return scores[a.index()] > scores[b.index()]; });
  order.resize(static_cast<std::size_t>(k));
  return order;
}

TEST(OccultTest, PrunesAHandWrittenToken) {
  const std::vector<float> scores = {.30f, .05f, .02f, .25f, .20f, .18f};
  const auto gpu_of = blocks(6, 3);  // {0,1} {2,3} {4,5}
  const auto ranked = experts_of({0, 3, 4});
  EXPECT_THAT(prune_by_score(ranked, scores, gpu_of, 2),
              ElementsAre(ExpertId(0), ExpertId(3), ExpertId(1)));
  ExpertSimilarity similarity{.experts = 6, .values = std::vector<double>(36, 0.1)};
  similarity.values[4 * 6 + 2] = 0.9;
  EXPECT_EQ(prune_by_similarity(ranked, similarity, gpu_of, 2), experts_of({0, 3, 2}));
  similarity.values[4 * 6 + 3] = 1.0;  // already chosen: does not count
  EXPECT_EQ(prune_by_similarity(ranked, similarity, gpu_of, 2), experts_of({0, 3, 2}));
  similarity.values[4 * 6 + 5] = 1.0;  // not on an allowed GPU
  EXPECT_EQ(prune_by_similarity(ranked, similarity, gpu_of, 2), experts_of({0, 3, 2}));
  EXPECT_THROW(prune_by_score(ranked, scores, gpu_of, 1), Error);
  EXPECT_THROW(prune_by_similarity(ranked, similarity, gpu_of, 0), Error);
}

TEST(OccultTest, EqualSimilarityTakesTheLowestExpert) {
  const ExpertSimilarity similarity{.experts = 8, .values = std::vector<double>(64, 0.5)};
  EXPECT_EQ(prune_by_similarity(experts_of({2, 7}), similarity, blocks(8, 2), 1),
            experts_of({2, 0}));
}

TEST(OccultTest, PrunedTokensKeepTheirSizeTheirBestExpertAndTheirLimit) {
  const auto gpu_of = blocks(32, 8);
  Random random(11);
  ExpertSimilarity similarity{.experts = 32, .values = std::vector<double>(32 * 32)};
  for (double& s : similarity.values) s = random.uniform();
  for (int t = 0; t < 200; ++t) {
    std::vector<float> scores(32);
    for (float& s : scores) s = static_cast<float>(random.uniform());
    const auto ranked = ranked_top(scores, 4);
    for (int allowed = 1; allowed <= 8; ++allowed) {
      for (const auto& pruned : {prune_by_score(ranked, scores, gpu_of, allowed),
                                 prune_by_similarity(ranked, similarity, gpu_of, allowed)}) {
        const std::set<ExpertId> distinct(pruned.begin(), pruned.end());
        std::set<GpuId> gpus, before;
        for (const ExpertId e : pruned) gpus.insert(gpu_of[e.index()]);
        for (const ExpertId e : ranked) before.insert(gpu_of[e.index()]);
        ASSERT_EQ(distinct.size(), 4u);
        ASSERT_EQ(pruned[0], ranked[0]);
        ASSERT_LE(static_cast<int>(gpus.size()), allowed);
        if (static_cast<int>(before.size()) <= allowed) {
          ASSERT_EQ(pruned, ranked);
        }
      }
    }
  }
}

TEST(OccultTest, RefusesUnequalShares) { EXPECT_THROW(place_occult(PairMatrix(10), 4), Error); }

}  // namespace
}  // namespace moesim
