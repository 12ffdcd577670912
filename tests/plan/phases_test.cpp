// SPDX-License-Identifier: Apache-2.0
// Exchanges that run at once.
#include "sim/plan/phases.h"

#include <gtest/gtest.h>

#include "tests/plan/fixtures.h"

namespace moesim {
namespace {

using namespace test;

Op communicator(std::initializer_list<int> gpus, int layer, Stage stage = Stage::dispatch) {
  Op op = exchange("x", gpus, matrix(2, 1, {}));
  op.key = {.kind = OpKind::token_exchange, .stage = stage, .layer = layer};
  return op;
}

TEST(Phases, AreTheCommunicatorsOfOneKey) {
  const Plan plan{"phases",
                  4,
                  {communicator({0, 1}, 0), kernel("k", 0), communicator({2, 3}, 0),
                   communicator({0, 1}, 0, Stage::combine), communicator({0, 1}, 1),
                   communicator({2, 3}, 0, Stage::combine)}};
  const std::vector<std::vector<OpId>> expected = {ids<OpId>({0, 2}), ids<OpId>({3, 5}),
                                                   ids<OpId>({4})};
  EXPECT_EQ(exchange_phases(plan), expected);
}

TEST(Phases, RepeatWhatOneGpuDoesAgain) {
  const Plan plan{"phases",
                  4,
                  {communicator({0, 1}, 0), communicator({0, 1}, 0), communicator({2, 3}, 0),
                   communicator({2, 3}, 0)}};
  const std::vector<std::vector<OpId>> expected = {ids<OpId>({0, 2}), ids<OpId>({1, 3})};
  EXPECT_EQ(exchange_phases(plan), expected);
}

TEST(Phases, OfNoLayerAreAlone) {
  const Plan plan{"phases", 4, {communicator({0, 1}, -1), communicator({2, 3}, -1)}};
  const std::vector<std::vector<OpId>> expected = {ids<OpId>({0}), ids<OpId>({1})};
  EXPECT_EQ(exchange_phases(plan), expected);
}

TEST(Phases, MinimumTimesAreNoneOfThem) {
  Op minimum = kernel("minimum", 0);
  EXPECT_FALSE(is_minimum_time(minimum));
  minimum.key.kind = OpKind::minimum_time;
  EXPECT_TRUE(is_minimum_time(minimum));
  EXPECT_TRUE(exchange_phases({"phases", 1, {minimum}}).empty());
}

}  // namespace
}  // namespace moesim
