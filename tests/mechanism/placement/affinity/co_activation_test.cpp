// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/affinity/co_activation.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "sim/base/error.h"
#include "sim/mechanism/owners.h"
#include "tests/mechanism/placement/affinity/chosen_tokens.h"
#include "tests/mechanism/placement/affinity/judged.h"

namespace moesim {
namespace {

TEST(CoActivationTest, CountsThePairsOfHandWrittenTokens) {
  const ChosenTokens tokens(4, {{2, 0, 1}, {0, 2, 3}});
  const PairMatrix co = co_choices(tokens.rows(), 4);
  const auto at = [&](int a, int b) { return co.at(ExpertId(a), ExpertId(b)); };
  EXPECT_EQ(at(0, 2), 2);
  EXPECT_EQ(at(2, 0), 2);
  EXPECT_EQ(at(0, 1), 1);
  EXPECT_EQ(at(1, 3), 0);
  EXPECT_EQ(at(2, 2), 0);
  EXPECT_EQ(total(co), 2 * 3 * 2);
}

TEST(CoActivationTest, AgreesWithAskingEveryTokenForEveryPair) {
  for (const int experts : {24, 300}) {  // one and two bytes per id
    const auto chosen = uniform_tokens(experts, 6, 400, 1);
    const PairMatrix co = co_choices(ChosenTokens(experts, chosen).rows(), experts);
    for (int a = 0; a < 24; ++a) {
      for (int b = 0; b < experts; ++b) {
        std::int64_t expected = 0;
        for (const auto& token : chosen) {
          expected += a != b && std::count(token.begin(), token.end(), a) > 0 &&
                      std::count(token.begin(), token.end(), b) > 0;
        }
        ASSERT_EQ(co.at(ExpertId(a), ExpertId(b)), expected) << a << " " << b;
      }
    }
    EXPECT_EQ(co, co.transposed());
  }
}

TEST(CoActivationTest, TransitionsCountEveryChoiceOfOneLayerWithEveryOneOfTheNext) {
  const ChosenTokens first(4, {{0, 1}, {2, 3}}), second(4, {{3, 1}, {3, 0}});
  const PairMatrix t = transitions(first.rows(), second.rows(), 4);
  EXPECT_EQ(t.at(ExpertId(0), ExpertId(3)), 1);
  EXPECT_EQ(t.at(ExpertId(1), ExpertId(1)), 1);
  EXPECT_EQ(t.at(ExpertId(3), ExpertId(0)), 1);
  EXPECT_EQ(t.at(ExpertId(3), ExpertId(1)), 0);
  EXPECT_EQ(total(t), 2 * 2 * 2);
  EXPECT_EQ(transitions(second.rows(), first.rows(), 4), t.transposed());
}

TEST(CoActivationTest, RefusesIdsOutOfRange) {
  const ChosenTokens tokens(4, {{0, 3}});
  EXPECT_THROW(co_choices(tokens.rows(), 3), Error);
}

TEST(CoActivationTest, TablesAndGpusOfExpertsAreInverse) {
  const SlotTable table = {{ExpertId(1), ExpertId(2)}, {}, {ExpertId(0)}};
  const auto gpu_of = owners_of(table);
  EXPECT_EQ(gpu_of, (std::vector<GpuId>{GpuId(2), GpuId(0), GpuId(0)}));
  EXPECT_EQ(table_of(gpu_of, 3), table);
}

}  // namespace
}  // namespace moesim
