// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/serving/replica_choice.h"

#include <gtest/gtest.h>

#include <numeric>

#include "sim/base/error.h"

namespace moesim {
namespace {

TEST(ReplicaChoiceTest, RunLengthKeepsTheOrder) {
  const std::vector<SlotId> sequence = {SlotId(4), SlotId(4), SlotId(2), SlotId(4)};
  EXPECT_EQ(run_length(sequence), (Shares{{SlotId(4), 2}, {SlotId(2), 1}, {SlotId(4), 1}}));
  EXPECT_THROW(run_length({}), Error);
}

TEST(ReplicaChoiceTest, AsksTheRuleForEveryChoiceInTurn) {
  const std::vector<Choice> choices = {{3, 0}, {5, 1}, {9, 0}};
  const std::vector<SlotId> replicas = {SlotId(1), SlotId(6)};
  const auto odd_token = [](std::int64_t i, const Choice& choice) {
    return static_cast<std::size_t>((i + choice.token + choice.position) % 2);
  };
  EXPECT_EQ(shares_by(choices, replicas, odd_token), (Shares{{SlotId(6), 3}}));
  EXPECT_EQ(shares_by({}, replicas, odd_token), (Shares{{SlotId(1), 1}}));
}

TEST(ReplicaChoiceTest, ApportionsByLargestRemainder) {
  const std::vector<double> weights = {1, 2, 3};
  EXPECT_EQ(apportion(10, weights), (std::vector<std::int64_t>{2, 3, 5}));  // 1.67, 3.33, 5
  EXPECT_EQ(apportion(4, std::vector<double>{0, 0, 0}), (std::vector<std::int64_t>{2, 1, 1}));
  for (std::int64_t count = 0; count < 100; ++count) {
    const auto parts = apportion(count, std::vector<double>{0.1, 0.7, 0.2, 1e-9});
    EXPECT_EQ(std::accumulate(parts.begin(), parts.end(), std::int64_t{0}), count);
  }
  EXPECT_THROW(apportion(3, {}), Error);
}

}  // namespace
}  // namespace moesim
