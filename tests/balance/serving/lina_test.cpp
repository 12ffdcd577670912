// SPDX-License-Identifier: Apache-2.0
#include "sim/balance/serving/lina.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "sim/balance/serving/path_profile.h"
#include "sim/base/error.h"
#include "sim/trace/synth/random.h"
#include "tests/balance/serving/slot_table.h"

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

TEST(PathProfileTest, AdjacentLayerKeepsTheNumberOfChoices) {
  PathProfile profile(4);
  const std::vector<ExpertId> pair = {ExpertId(1), ExpertId(3)};
  profile.add({ExpertId(0)}, pair);
  profile.add({ExpertId(2)}, pair);
  EXPECT_EQ(expect_after(profile, Values{6, 0, 6, 0}), (Values{0, 6, 0, 6}));
  EXPECT_EQ(expect_after(profile, Values{0, 0, 0, 0}), (Values{0, 0, 0, 0}));
}

TEST(LinaTest, OraclePacksFirstFitDecreasing) {
  EXPECT_EQ(lina::pack(Values{2, 0.5, 0.5, 1}, 4), table_of({{0}, {0}, {3}, {1, 2}}));
}

TEST(LinaTest, SharesAreDevicesByLoad) {
  EXPECT_EQ(lina::device_shares(Values{20, 5, 5, 10}, 4), (Values{2, 0.5, 0.5, 1}));
  EXPECT_EQ(lina::device_shares(Values{0, 0}, 4), (Values{2, 2}));
}

TEST(LinaTest, WithdrawsReplicasWhereRoundingGaveMost) {
  // 1.5 rounds to 2, 1.8 to 2; 0.7 needs a third device of 4: expert 0 gives one back.
  EXPECT_EQ(lina::pack(Values{1.5, 1.8, 0.7}, 4), table_of({{0}, {1}, {1}, {2}}));
}

TEST(LinaTest, JoinsTheLeastFilledDeviceWhenNothingFits) {
  EXPECT_EQ(lina::pack(Values{0.6, 0.6, 0.6, 0.6, 0.6}, 3), table_of({{0, 3}, {1, 4}, {2}}));
}

TEST(LinaTest, ReplicatesTheHeaviestOnSpareDevices) {
  // 1.4 rounds to 1, the others share one device: 1.4 and then 0.6 (0.7 per copy) get the rest.
  EXPECT_EQ(lina::pack(Values{1.4, 0.6, 0.0}, 2), table_of({{0}, {1, 2}}));
  EXPECT_EQ(lina::pack(Values{1.4, 0.3, 0.3}, 3), table_of({{0}, {1, 2}, {0}}));
}

TEST(LinaTest, UsesAllDevicesForAllExperts) {
  Random random(6);
  for (int trial = 0; trial < 300; ++trial) {
    const int devices = 1 + static_cast<int>(random.below(12));
    Values loads(1 + random.below(24));
    for (double& load : loads) load = random.below(4) * random.uniform() * random.uniform();
    const SlotTable table = lina::pack(lina::device_shares(loads, devices), devices);
    EXPECT_EQ(static_cast<int>(table.size()), devices);
    Placement(static_cast<int>(loads.size()), table);  // throws when an expert is missing
    for (const auto& device : table) EXPECT_FALSE(device.empty());
  }
  EXPECT_THROW(lina::pack(Values{1, 1, 1}, 2), Error);
  EXPECT_THROW(lina::pack(Values{}, 2), Error);
}

TEST(LinaTest, PredictionHoldsWhileTheTopSetIsTheSame) {
  EXPECT_TRUE(lina::prediction_holds(Values{9, 8, 1, 0}, Values{5, 6, 0, 2}, 1));
  EXPECT_FALSE(lina::prediction_holds(Values{9, 8, 1, 0}, Values{5, 1, 0, 2}, 1));
  EXPECT_TRUE(lina::prediction_holds(Values{9, 8, 1, 0}, Values{5, 1, 0, 2}, 2));
}

}  // namespace
}  // namespace moesim
