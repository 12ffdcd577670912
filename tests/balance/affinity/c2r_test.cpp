// SPDX-License-Identifier: Apache-2.0
#include "sim/balance/affinity/c2r.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/base/error.h"
#include "tests/balance/affinity/routed.h"

namespace moesim {
namespace {

using ::testing::ElementsAre;

TEST(C2rTest, PartnersFallByCoChoicesThenRiseById) {
  const Tokens tokens(4, {{1, 3}, {1, 3}, {1, 2}, {0, 2}});
  const Partners partners = c2r_partners(co_choices(tokens.rows(), 4));
  EXPECT_THAT(partners[1], ElementsAre(ExpertId(3), ExpertId(2), ExpertId(0), ExpertId(1)));
  EXPECT_THAT(partners[2], ElementsAre(ExpertId(0), ExpertId(1), ExpertId(3), ExpertId(2)));
}

TEST(C2rTest, RoutesToPartnersOfTheBestExpert) {
  const Tokens tokens(5, {{1, 3}, {1, 3}, {1, 2}, {0, 4}});
  const Partners partners = c2r_partners(co_choices(tokens.rows(), 5));
  const std::vector<float> scores = {.30f, .35f, .10f, .05f, .20f};
  EXPECT_THAT(c2r_route(scores, partners, 2, 1), ElementsAre(ExpertId(1), ExpertId(3)));
  EXPECT_THAT(c2r_route(scores, partners, 2, 2), ElementsAre(ExpertId(1), ExpertId(2)));
  EXPECT_THAT(c2r_route(scores, partners, 2, 3), ElementsAre(ExpertId(1), ExpertId(0)));
  EXPECT_THAT(c2r_route(scores, partners, 1, 0), ElementsAre(ExpertId(1)));
}

TEST(C2rTest, AllPartnersArePlainTopKAndTheFirstExpertNeverChanges) {
  const Tokens tokens(12, uniform_tokens(12, 4, 100, 3));
  const Partners partners = c2r_partners(co_choices(tokens.rows(), 12));
  Random random(4);
  for (int t = 0; t < 200; ++t) {
    std::vector<float> scores(12);
    for (float& s : scores) s = static_cast<float>(random.below(8));  // with ties
    std::vector<ExpertId> top;
    for (int e = 0; e < 12; ++e) top.emplace_back(e);
    std::stable_sort(top.begin(), top.end(),
                     [&](ExpertId a, ExpertId b) { return scores[a.index()] > scores[b.index()]; });
    top.resize(4);
    EXPECT_EQ(c2r_route(scores, partners, 4, 11), top);
    for (int top_t = 3; top_t < 11; ++top_t) {
      const auto routed = c2r_route(scores, partners, 4, top_t);
      EXPECT_EQ(routed[0], top[0]);
      EXPECT_EQ(routed.size(), 4u);
    }
  }
}

TEST(C2rTest, RefusesTooFewOrTooManyPartners) {
  const Partners partners = c2r_partners(PairMatrix(4));
  const std::vector<float> scores(4);
  EXPECT_THROW(c2r_route(scores, partners, 3, 1), Error);
  EXPECT_THROW(c2r_route(scores, partners, 3, 4), Error);
}

}  // namespace
}  // namespace moesim
