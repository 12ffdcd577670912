// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/affinity/grouping.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "sim/base/error.h"
#include "sim/mechanism/owners.h"
#include "tests/mechanism/placement/affinity/chosen_tokens.h"

namespace moesim {
namespace {

using ::testing::ElementsAre;

TEST(GroupingTest, SimilarityIsTheCosineOfCoChoiceRows) {
  const ChosenTokens tokens(4, {{0, 1}, {0, 1}, {2, 1}, {0, 3}});
  const SquareMatrix s = co_choice_similarity(co_choices(tokens.rows(), 4));
  // Rows: 0: (0, 2, 0, 1); 1: (2, 0, 1, 0); 2: (0, 1, 0, 0); 3: (1, 0, 0, 0).
  EXPECT_DOUBLE_EQ(s.at(0, 2), 2 / std::sqrt(5));
  EXPECT_DOUBLE_EQ(s.at(3, 1), 2 / std::sqrt(5));
  EXPECT_DOUBLE_EQ(s.at(0, 1), 0);
  EXPECT_DOUBLE_EQ(s.at(2, 2), 1);
  EXPECT_DOUBLE_EQ(co_choice_similarity(PairMatrix(2)).at(0, 1), 0);
}

TEST(GroupingTest, SimilarityFollowsSlowlyAndForgetsWeakPairs) {
  SquareMatrix s(1), newest(1);
  s.values = {0.2};
  newest.values = {1};
  update_similarity(s, newest);
  EXPECT_DOUBLE_EQ(s.values[0], 0.24);
  EXPECT_DOUBLE_EQ(without_weak_pairs(s).values[0], 0.24);
  s.values = {0.099};
  EXPECT_DOUBLE_EQ(without_weak_pairs(s).values[0], 0);
  EXPECT_THROW(update_similarity(s, SquareMatrix(2)), Error);
}

TEST(GroupingTest, GroupsAreEqualWhateverTheClusters) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    const ChosenTokens tokens(26, uniform_tokens(26, 4, 150, seed));
    const SquareMatrix s = co_choice_similarity(co_choices(tokens.rows(), 26));
    for (const int groups : {1, 2, 4, 8, 13, 26}) {
      const auto found = similar_groups(s, groups, seed);
      EXPECT_EQ(owners_of(found).size(), 26u);
      for (const auto& group : found) {
        EXPECT_GE(static_cast<int>(group.size()), 26 / groups);
        EXPECT_LE(static_cast<int>(group.size()), (26 + groups - 1) / groups);
      }
    }
  }
}

TEST(GroupingTest, BoundaryExpertsMoveWhenClustersAreUneven) {
  // On a line: five experts near 0, one of them on the way to the group of three near 10.
  SquareMatrix s(8);
  const double place[8] = {0, 0.1, 0.2, 0.3, 3, 10, 10.1, 10.2};
  for (std::size_t i = 0; i < 8; ++i)
    for (std::size_t j = 0; j < 8; ++j) s.at(i, j) = 1 - std::fabs(place[i] - place[j]) / 11;
  auto groups = similar_groups(s, 2, 1);
  std::sort(groups.begin(), groups.end());
  EXPECT_THAT(groups[1], ElementsAre(ExpertId(4), ExpertId(5), ExpertId(6), ExpertId(7)));
}

TEST(GroupingTest, HiddenGroupsAreFound) {
  std::vector<std::vector<int>> chosen;
  Random random(6);
  for (int t = 0; t < 500; ++t) {
    const int group = static_cast<int>(random.below(4)), skip = static_cast<int>(random.below(4));
    std::vector<int> token;
    for (int i = 0; i < 4; ++i)
      if (i != skip) token.push_back(group + 4 * i);
    chosen.push_back(token);
  }
  const ChosenTokens tokens(16, chosen);
  const auto groups =
      similar_groups(without_weak_pairs(co_choice_similarity(co_choices(tokens.rows(), 16))), 4, 3);
  for (const auto& group : groups)
    for (const ExpertId e : group) EXPECT_EQ(e.value % 4, group[0].value % 4);
}

TEST(GroupingTest, GroupsGoToTheLeastLoadedPartWithRoom) {
  const std::vector<std::vector<ExpertId>> groups = {
      {ExpertId(0)}, {ExpertId(1)}, {ExpertId(2)}, {ExpertId(3)}};
  EXPECT_THAT(place_groups(groups, std::vector<std::int64_t>{1, 50, 2, 3}, 2),
              ElementsAre(0, 0, 1, 1));  // 50 by itself is more, yet each part takes two
  EXPECT_THAT(place_groups(groups, std::vector<std::int64_t>(4), 2), ElementsAre(0, 0, 1, 1));
  EXPECT_THROW(place_groups(groups, std::vector<std::int64_t>(4), 3), Error);
}

}  // namespace
}  // namespace moesim
