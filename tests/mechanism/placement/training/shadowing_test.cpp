// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/training/shadowing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/base/error.h"
#include "tests/mechanism/placement/training/routed_layer.h"

namespace moesim {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<int> ids(const std::vector<ExpertId>& experts) {
  std::vector<int> values;
  for (const ExpertId e : experts) values.push_back(e.value);
  return values;
}

/// The choices of one expert on each of four GPUs, none of them from its own GPU.
LoadMatrix from_next(const std::vector<std::int64_t>& totals) {
  LoadMatrix loads(4, 4);
  for (int e = 0; e < 4; ++e) {
    loads.at(GpuId((e + 1) % 4), ExpertId(e)) = totals[static_cast<std::size_t>(e)];
  }
  return loads;
}

const SlotTable shadowed_slots = slots({{0}, {1}, {2}, {3}});

TEST(ShadowModelTest, DefaultsOfTheCode) {
  const ShadowModel model;
  EXPECT_NEAR(model.compute().value, 2.917777e-6, 1e-12);
  EXPECT_DOUBLE_EQ(model.feature().value, 1.31072e-6);
  EXPECT_DOUBLE_EQ(model.parameters().value, 0.01073741824);
  const double threshold =
      model.parameters().value / (3 * model.compute().value + 4 * model.feature().value);
  EXPECT_NEAR(threshold, 767.166, 5e-4);
}

TEST(ShadowModelTest, ShadowingPaysByThePublishedCondition) {
  ShadowModel model;
  model.hidden = 64;
  const double rah = 3 * model.alpha * model.hidden;  // r alpha H with r = 3
  const double p_over_w = model.throughput.value / model.bandwidth.value * model.element_bytes;
  int paying = 0;
  for (std::int64_t largest = 10; largest < 500; largest += 7) {
    for (std::int64_t after = 1; after <= largest; after += 5) {
      const auto b = static_cast<double>(largest);
      const auto drop = static_cast<double>(largest - after);
      const bool pays = b > rah || 3 * drop * model.alpha * model.hidden / (rah - b) > p_over_w;
      EXPECT_EQ(shadowed_time(model, after, 3) < unshadowed_time(model, largest), pays)
          << largest << " -> " << after;
      paying += pays;
    }
  }
  EXPECT_GT(paying, 0);
}

std::vector<int> fastmoe(const std::vector<std::int64_t>& totals) {
  return ids(choose_shadows(ShadowRule::fastmoe, {}, from_next(totals), shadowed_slots));
}

TEST(ShadowRuleTest, FastmoeNeedsADropOf768PerShadow) {
  EXPECT_THAT(fastmoe({4000, 3200, 2433, 2000}), ElementsAre(0));
  EXPECT_THAT(fastmoe({4000, 3232, 2464, 2400}), ElementsAre(0, 1));
  EXPECT_THAT(fastmoe({4000, 3300, 1000, 0}), IsEmpty());
  EXPECT_THAT(fastmoe({3000, 3768, 0, 0}), ElementsAre(1, 0));
  EXPECT_THAT(fastmoe({3000, 3767, 0, 0}), IsEmpty());
  EXPECT_THAT(fastmoe({9000, 6000, 3000, 0}), ElementsAre(0, 1, 2));  // the last one never
}

/// Parameters that cost nothing to move: every drop of the largest load pays.
ShadowModel free_transfers() {
  ShadowModel model;
  model.bandwidth = BytesPerSecond(1e30);
  return model;
}

TEST(ShadowRuleTest, PaperStopsWhereTheLargestLoadNoLongerFalls) {
  // GPU 0 sends its 600 choices of expert 1; shadowing it brings them back next to GPU 0's own.
  const LoadMatrix loads =
      loads_of({{500, 600, 0, 0}, {300, 0, 0, 0}, {100, 0, 50, 0}, {100, 0, 0, 40}});
  EXPECT_EQ(shadowed_loads(loads, shadowed_slots, {}),
            (std::vector<std::int64_t>{1000, 600, 50, 40}));
  const std::vector<ExpertId> first = {ExpertId(0)};
  EXPECT_EQ(shadowed_loads(loads, shadowed_slots, first),
            (std::vector<std::int64_t>{500, 900, 150, 140}));
  const std::vector<ExpertId> both = {ExpertId(0), ExpertId(1)};
  EXPECT_EQ(shadowed_loads(loads, shadowed_slots, both),
            (std::vector<std::int64_t>{1100, 300, 150, 140}));
  EXPECT_THAT(ids(choose_shadows(ShadowRule::paper, free_transfers(), loads, shadowed_slots)),
              ElementsAre(0));
}

TEST(ShadowRuleTest, PaperShadowsNothingForATie) {
  const LoadMatrix own = loads_of({{100, 0}, {0, 1}});
  EXPECT_THAT(choose_shadows(ShadowRule::paper, free_transfers(), own, slots({{0}, {1}})),
              IsEmpty());
}

TEST(ShadowRuleTest, PaperTakesTheCheapestPrefixItCanReach) {
  std::mt19937 random(6);
  int shadowed = 0;
  for (int round = 0; round < 200; ++round) {
    LoadMatrix loads(4, 8);
    for (int s = 0; s < 4; ++s) {
      for (int e = 0; e < 8; ++e) {
        loads.at(GpuId(s), ExpertId(e)) = static_cast<std::int64_t>(random() % 4000 / (1 + e));
      }
    }
    const SlotTable table = slots({{0, 1}, {2, 3}, {4, 5}, {6, 7}});
    ShadowModel model;
    model.bandwidth = BytesPerSecond(100e9);
    const auto chosen = choose_shadows(ShadowRule::paper, model, loads, table);
    const auto order = heaviest_first(loads.per_expert());
    const auto time = [&](std::size_t r) {
      const std::int64_t largest =
          std::ranges::max(shadowed_loads(loads, table, std::span(order).first(r)));
      return r == 0 ? unshadowed_time(model, largest)
                    : shadowed_time(model, largest, static_cast<int>(r));
    };
    for (std::size_t r = 0; r < chosen.size(); ++r) {
      EXPECT_EQ(chosen[r], order[r]);
      EXPECT_GT(time(r), time(r + 1));
    }
    if (chosen.size() < 8) {
      EXPECT_GE(time(chosen.size() + 1), time(chosen.size()));
    }
    shadowed += !chosen.empty();
  }
  EXPECT_GT(shadowed, 0);
}

TEST(ShadowRuleTest, SmartMoeAeCountsTheOwnersTokensAndKeepsTheBestPrefix) {
  ShadowModel model{.hidden = 8, .alpha = 1, .element_bytes = 2};
  model.throughput = FlopsPerSecond(4 * 64 * 3);  // 3 c = 1 s
  model.bandwidth = BytesPerSecond(2 * 8 * 4);    // 4 f = 1 s, and 8 m = 4 * 8 * 8 s
  ASSERT_DOUBLE_EQ(3 * model.compute().value, 1);
  ASSERT_DOUBLE_EQ(4 * model.feature().value, 1);
  const double transfer = 16 * 64 * 2 / model.bandwidth.value;  // 16 alpha H^2 bytes / bw
  ASSERT_DOUBLE_EQ(8 * model.parameters().value, transfer);     // 32 s
  // Times: 0 shadows: 1000 + 1000 = 2000; 1: 990 + (990 - 10) + 32 = 2002, as expert 1's owner has
  // none of expert 0: no better than without, so it stops.
  EXPECT_THAT(ids(choose_shadows(ShadowRule::smart_moe_ae, model,
                                 loads_of({{0, 980, 0}, {0, 10, 0}, {1000, 0, 0}}),
                                 slots({{0}, {1}, {2}}))),
              IsEmpty());
  // 0: 2000; 1: 900 + 900 + 32 + the 150 of expert 0 that expert 1's owner now computes = 1982;
  // 2: 150 + 150 + 64 + the 850 of expert 0 and none of expert 1 = 1214, the best.
  const SlotTable three = slots({{0}, {1}, {2}});
  EXPECT_THAT(ids(choose_shadows(ShadowRule::smart_moe_ae, model,
                                 loads_of({{0, 900, 150}, {150, 0, 0}, {850, 0, 0}}), three)),
              ElementsAre(0, 1));
  // As above with 250 of expert 0 from expert 1's owner: 2082 after one, no better than 2000.
  EXPECT_THAT(ids(choose_shadows(ShadowRule::smart_moe_ae, model,
                                 loads_of({{0, 900, 100}, {250, 0, 0}, {750, 0, 0}}), three)),
              IsEmpty());
  // 0: 2000; 1: 200 + 200 + 32 = 432; 2: 199 + 199 + 64 = 462 is worse, but below 2000.
  EXPECT_THAT(ids(choose_shadows(ShadowRule::smart_moe_ae, model,
                                 loads_of({{0, 200, 199}, {0, 0, 0}, {1000, 0, 0}}), three)),
              ElementsAre(0));
}

TEST(ShadowTest, CopiesToAllOtherGpusAndReducesBack) {
  const std::vector<ExpertId> shadows = {ExpertId(2), ExpertId(0)};
  const Shadowing result = shadow(shadowed_slots, shadows, Bytes(1000), Bytes(10));
  EXPECT_EQ(result.table, slots({{0, 2}, {1, 2, 0}, {2, 0}, {3, 2, 0}}));
  EXPECT_EQ(off_gpu(result.broadcast), Bytes(6000));
  EXPECT_EQ(off_gpu(result.reduce), Bytes(60));
  EXPECT_EQ(result.broadcast[0], (ExpertTransfer{ExpertId(2), GpuId(2), GpuId(0), Bytes(1000)}));
  EXPECT_EQ(result.reduce[0], (ExpertTransfer{ExpertId(2), GpuId(0), GpuId(2), Bytes(10)}));
}

TEST(ShadowRuleTest, RefusesWhatDoesNotFit) {
  EXPECT_THROW(choose_shadows(ShadowRule::paper, {}, LoadMatrix(4, 3), shadowed_slots), Error);
  EXPECT_THROW(choose_shadows(ShadowRule::paper, {}, LoadMatrix(3, 4), shadowed_slots), Error);
}

}  // namespace
}  // namespace moesim
