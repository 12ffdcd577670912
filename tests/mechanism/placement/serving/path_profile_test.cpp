// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/serving/path_profile.h"

#include <gtest/gtest.h>

namespace moesim {
namespace {

using Values = std::vector<double>;

TEST(PathProfileTest, ExpectsWhatTokensOfThePathChose) {
  PathProfile profile(3);
  const ExpertPath path = {ExpertId(0), ExpertId(2)};
  profile.add(path, std::vector<ExpertId>{ExpertId(1)});
  profile.add(path, std::vector<ExpertId>{ExpertId(1)});
  profile.add(path, std::vector<ExpertId>{ExpertId(0)});
  profile.add({ExpertId(1), ExpertId(1)}, std::vector<ExpertId>{ExpertId(2)});
  Values loads(3);
  profile.expect(path, 6, loads);
  EXPECT_EQ(loads, (Values{2, 4, 0}));
  profile.expect({ExpertId(2)}, 8, loads);  // never profiled: any token's 1/4, 1/2, 1/4
  EXPECT_EQ(loads, (Values{4, 8, 2}));
}

TEST(PathProfileTest, AdjacentLayerIsExactWhenEveryChoiceImpliesTheNext) {
  PathProfile profile(4);
  for (int e = 0; e < 4; ++e) {
    profile.add({ExpertId(e)}, std::vector<ExpertId>{ExpertId((e + 1) % 4)});
  }
  EXPECT_EQ(expect_after(profile, Values{5, 0, 7, 1}), (Values{1, 5, 0, 7}));
}

TEST(PathProfileTest, AdjacentLayerTakesParts) {
  PathProfile profile(2);
  profile.add({ExpertId(0)}, std::vector<ExpertId>{ExpertId(1)});
  EXPECT_EQ(expect_after(profile, Values{0.25, 0}), (Values{0, 0.25}));
}

TEST(PathProfileTest, AdjacentLayerKeepsTheNumberOfChoices) {
  PathProfile profile(4);
  const std::vector<ExpertId> pair = {ExpertId(1), ExpertId(3)};
  profile.add({ExpertId(0)}, pair);
  profile.add({ExpertId(2)}, pair);
  EXPECT_EQ(expect_after(profile, Values{6, 0, 6, 0}), (Values{0, 6, 0, 6}));
  EXPECT_EQ(expect_after(profile, Values{0, 0, 0, 0}), (Values{0, 0, 0, 0}));
}

}  // namespace
}  // namespace moesim
