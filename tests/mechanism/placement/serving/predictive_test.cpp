// SPDX-License-Identifier: Apache-2.0
// Replication by predicted loads: which steps each predictor has seen.
#include <gtest/gtest.h>

#include "tests/mechanism/placement/serving/serving_play.h"

namespace moesim {
namespace {

TEST(PredictivePlacement, CopiesByLoadsThatAreOldEnough) {
  const std::vector<int> hot = {8, 1, 1, 2};
  const Experts base = {{0, 1}, {2, 3}}, copied = {{0, 1, 3}, {2, 3, 0}};
  const auto play_of = [&](const std::string& more) {
    ServingPlay play("{kind: predictive-replication" + more + "}", pair_of_gpus, 4);
    std::vector<bool> seen;
    for (int step = 0; step < 3; ++step) {
      const Experts table = experts_of(play.show_counts(step == 0 ? hot : std::vector{3, 3, 3, 3}));
      EXPECT_TRUE(table == copied || table == base);
      seen.push_back(table == copied);
    }
    return seen;
  };
  // 9 and 3 become 5 and 7 with a copy of expert 0, then 6 and 6; even loads want no copy.
  EXPECT_EQ(play_of(", predictor: last"), (std::vector{false, true, false}));
  EXPECT_EQ(play_of(", predictor: last, lag: 2"), (std::vector{false, false, true}));
  EXPECT_EQ(play_of(", beta: 0.9"), (std::vector{false, true, true}));
  EXPECT_EQ(play_of(", beta: 0"), (std::vector{false, true, false}));
  EXPECT_EQ(play_of(", predictor: adjacent"), (std::vector{false, true, false}));
}

TEST(PredictivePlacement, OracleReactsAndCopiesComeOverlapped) {
  ServingPlay play("{kind: predictive-replication, predictor: oracle}", pair_of_gpus, 4);
  EXPECT_TRUE(play.reacts());
  play.show_counts({3, 3, 3, 3});
  const LayerDecision d = play.show_counts({8, 1, 1, 2});
  EXPECT_EQ(experts_of(d), (Experts{{0, 1, 3}, {2, 3, 0}}));
  EXPECT_EQ(bytes(d.migrate, 0, 1), expert);
  EXPECT_EQ(d.migration, Migration::overlapped);
  EXPECT_FALSE(ServingPlay("predictive-replication", pair_of_gpus, 4).reacts());
}

TEST(PredictivePlacement, AdjacentLayerForetellsTheNext) {
  ServingPlay play("{kind: predictive-replication, predictor: adjacent}", pair_of_gpus, 4, 1, 2);
  // Tokens with expert 0 continue to expert 2.
  play.show({0, 0, 0, 0, 0, 0, 1, 3}, 0);
  play.show({2, 2, 2, 2, 2, 2, 3, 1}, 1);
  play.show({0, 0, 0, 0, 0, 0, 1, 3}, 0);
  const Experts second = experts_of(play.show({0, 1, 2, 3, 0, 1, 2, 3}, 1));
  EXPECT_EQ(second, (Experts{{0, 1, 2}, {2, 3}}));
}

}  // namespace
}  // namespace moesim
