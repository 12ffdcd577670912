// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/mechanism/placement/affinity/co_activation.h"
#include "tests/mechanism/placement/affinity/chosen_tokens.h"

namespace moesim {
namespace {

using ::testing::ElementsAre;

TEST(C2rTest, PartnersFallByCoChoicesThenRiseById) {
  const ChosenTokens tokens(4, {{1, 3}, {1, 3}, {1, 2}, {0, 2}});
  const Partners partners = c2r_partners(co_choices(tokens.rows(), 4));
  EXPECT_THAT(partners[1], ElementsAre(ExpertId(3), ExpertId(2), ExpertId(0), ExpertId(1)));
  EXPECT_THAT(partners[2], ElementsAre(ExpertId(0), ExpertId(1), ExpertId(3), ExpertId(2)));
}

}  // namespace
}  // namespace moesim
