// SPDX-License-Identifier: Apache-2.0
// Rules that replace choices by experts that go with the others: Occult's pruning and C2R.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/mechanism/routing/recorded_layer.h"

namespace moesim {
namespace {

// 16 experts on 4 GPUs: the tokens visit the first GPUs of their choices by weight, keep what they
// chose there, and stay as they are where few enough are visited.
TEST(OccultPrune, TokensVisitTheFirstGpusOfTheirChoices) {
  std::mt19937 random(15);
  for (const char* by : {"similarity", "score"}) {
    const Recorded r = random_layer(random, 4, 30, 16, 4, true);
    for (int allowed = 1; allowed <= 4; ++allowed) {
      const auto result =
          route(fmt::format("{{kind: occult-prune, gpus: {}, by: {}}}", allowed, by), r);
      std::int64_t replaced = 0;
      for (std::size_t t = 0; t < result.rows.size(); ++t) {
        const auto recorded = r.rows()[t];
        std::vector<int> first;
        for (int k : order_of(r, static_cast<std::int64_t>(t))) {
          const int gpu = recorded[static_cast<std::size_t>(k)] / 4;
          if (std::find(first.begin(), first.end(), gpu) == first.end()) first.push_back(gpu);
        }
        const std::size_t visited = std::min(first.size(), static_cast<std::size_t>(allowed));
        first.resize(visited);
        const std::set<int> gpus(first.begin(), first.end());
        const std::set<int> experts(result.rows[t].begin(), result.rows[t].end());
        EXPECT_EQ(experts.size(), 4u);
        for (int e : experts) EXPECT_EQ(gpus.count(e / 4), 1u);
        for (int e : recorded) {
          if (gpus.count(e / 4) > 0) {
            EXPECT_EQ(experts.count(e), 1u);
          } else {
            ++replaced;
          }
        }
      }
      EXPECT_EQ(result.change.replaced_choices, replaced);
      EXPECT_EQ(replaced == 0, allowed == 4);
    }
  }
}

// Experts 1 and 2 (GPU 0) go with expert 4 (GPU 1): 2 oftener. Pruned to GPU 0, token {0, 4} takes
// 2 by similarity, and by score 3, which most tokens choose.
TEST(OccultPrune, SimilarityAndScoreReplaceByDifferentExperts) {
  const std::vector<int> ids = {0, 4, 2, 4, 2, 4, 1, 4, 3, 5, 3, 6, 3, 7, 3, 5};
  const Recorded r(8, 2, 2, ids);
  EXPECT_EQ(route("{kind: occult-prune, gpus: 1, by: similarity}", r).rows[0],
            (std::vector<int>{0, 2}));
  EXPECT_EQ(route("{kind: occult-prune, gpus: 1, by: score}", r).rows[0], (std::vector<int>{0, 3}));
}

// Expert 0 goes with 1 (three times), 2 (twice), then 3. With two partners, {0, 3, ...} changes.
TEST(C2R, OtherChoicesComeFromThePartnersOfTheBest) {
  const std::vector<int> ids = {0, 1, 0, 1, 0, 1, 0, 2, 0, 2, 0, 3};
  const Recorded r(4, 1, 2, ids);
  EXPECT_EQ(route("{kind: c2r, partners: 2}", r).rows,
            (Rows{{0, 1}, {0, 1}, {0, 1}, {0, 2}, {0, 2}, {0, 1}}));
  EXPECT_EQ(route("{kind: c2r, partners: 3}", r).rows, r.rows());
}

TEST(C2R, TheBestExpertNeverChangesAndAllPartnersChangeNothing) {
  std::mt19937 random(16);
  const Recorded r = random_layer(random, 4, 50, 12, 4, true);
  EXPECT_EQ(route("{kind: c2r, partners: 11}", r).rows, r.rows());
  const auto result = route("{kind: c2r, partners: 3}", r);
  EXPECT_GT(result.change.replaced_choices, 0);
  for (std::size_t t = 0; t < result.rows.size(); ++t) {
    const auto best = static_cast<std::size_t>(order_of(r, static_cast<std::int64_t>(t))[0]);
    EXPECT_EQ(result.rows[t][best], r.rows()[t][best]);
    EXPECT_EQ(std::set<int>(result.rows[t].begin(), result.rows[t].end()).size(), 4u);
  }
  EXPECT_THROW(route("{kind: c2r, partners: 2}", r), Error);  // top-4 needs three
}

// Layers keep their own profile, whatever order they come in.
TEST(C2R, AProfileIsTheFirstStepsAlone) {
  const Recorded first(3, 1, 2, {0, 1, 0, 1, 0, 2});
  const Recorded second(3, 1, 2, {0, 2, 0, 2, 0, 1});
  const auto c2r = make_routing("{kind: c2r, partners: 1}", first);
  EXPECT_EQ(route(*c2r, first).rows, (Rows{{0, 1}, {0, 1}, {0, 1}}));
  EXPECT_EQ(route(*c2r, second).rows, (Rows{{0, 1}, {0, 1}, {0, 1}}));
}

}  // namespace
}  // namespace moesim
