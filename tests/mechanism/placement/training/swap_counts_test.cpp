// SPDX-License-Identifier: Apache-2.0
// The closed form of an exchange against counting again with the experts exchanged.
#include "sim/mechanism/placement/training/swap_counts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/mechanism/placement/training/routed_layer.h"

namespace moesim {
namespace {

using testing::ElementsAre;

/// Tokens that touch each group, token by token.
std::vector<std::int64_t> recount(const RoutedLayer& routed, const std::vector<int>& group_of,
                                  int groups) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(groups));
  for (std::int64_t t = 0; t < routed.tokens(); ++t) {
    std::set<int> touched;
    for (int k = 0; k < routed.top_k; ++k) {
      touched.insert(group_of[static_cast<std::size_t>(routed.ids().at(t, k))]);
    }
    for (const int g : touched) ++counts[static_cast<std::size_t>(g)];
  }
  return counts;
}

std::vector<std::int64_t> after(const SwapCounts& counts, int r, int c) {
  std::vector<std::int64_t> z = counts.touching();
  z[static_cast<std::size_t>(counts.group_of(r))] = counts.touching_after(r, c);
  z[static_cast<std::size_t>(counts.group_of(c))] = counts.touching_after(c, r);
  return z;
}

struct SwapShape {
  int experts;
  int groups;
  int top_k;
};

class SwapCountsOf : public testing::TestWithParam<SwapShape> {};

TEST_P(SwapCountsOf, ClosedFormIsRecounting) {
  const auto [experts, groups, top_k] = GetParam();
  const RoutedLayer routed = random_routed(5, experts, top_k, 1, 300);
  std::vector<int> group_of;
  for (int e = 0; e < experts; ++e) group_of.push_back(e % groups);  // 16 experts in 3: unequal
  const SwapCounts counts(group_of, groups, routed.ids(), routed.all());
  EXPECT_EQ(counts.touching(), recount(routed, group_of, groups));
  for (int r = 0; r < experts; ++r) {
    for (int c = 0; c < experts; ++c) {
      std::vector<int> exchanged = group_of;
      std::swap(exchanged[static_cast<std::size_t>(r)], exchanged[static_cast<std::size_t>(c)]);
      ASSERT_EQ(after(counts, r, c), recount(routed, exchanged, groups)) << r << " and " << c;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, SwapCountsOf,
                         testing::Values(SwapShape{16, 3, 2}, SwapShape{16, 4, 4},
                                         SwapShape{16, 16, 3}, SwapShape{24, 3, 6},
                                         SwapShape{24, 8, 8}, SwapShape{24, 12, 1},
                                         SwapShape{32, 4, 8}, SwapShape{32, 8, 5},
                                         SwapShape{32, 16, 8}, SwapShape{68, 66, 6}),
                         [](const auto& shape) {
                           return "E" + std::to_string(shape.param.experts) + "U" +
                                  std::to_string(shape.param.groups) + "K" +
                                  std::to_string(shape.param.top_k);
                         });

TEST(SwapCountsTest, CountsWhatTheyAreNamedAfter) {
  const std::vector<int> group_of = {0, 0, 1, 1, 2};
  // Tokens {0,1,2}, {0,2,4}, {3,4,0}.
  const RoutedLayer routed(5, 3, 1, {0, 1, 2, 0, 2, 4, 3, 4, 0});
  const SwapCounts counts(group_of, 3, routed.ids(), routed.all());
  EXPECT_EQ(counts.choosing(0), 3);
  EXPECT_EQ(counts.alone(0), 2);
  EXPECT_EQ(counts.alone(2), 2);
  EXPECT_EQ(counts.alone_with(0, 4), 2);
  EXPECT_EQ(counts.alone_with(2, 0), 2);
  EXPECT_EQ(counts.alone_with(1, 0), 0);
  EXPECT_EQ(counts.with_group(0, 0), 3);
  EXPECT_EQ(counts.with_group(0, 1), 3);
  EXPECT_EQ(counts.with_group(0, 2), 2);
  EXPECT_EQ(counts.with_group(2, 0), 2);
}

TEST(SwapCountsTest, CountsTheGivenRunsOfWideIds) {
  const RoutedLayer routed(300, 2, 1, {299, 0, 299, 1, 0, 1, 299, 0});
  std::vector<int> group_of(300, 0);
  group_of[299] = 1;
  const std::vector<TokenRun> runs = {{3, 1}, {1, 2}};
  const SwapCounts counts(group_of, 2, routed.ids(), runs);
  EXPECT_THAT(counts.touching(), ElementsAre(3, 2));
  EXPECT_EQ(counts.choosing(0), 2);
  EXPECT_EQ(counts.alone_with(299, 1), 1);
}

TEST(SwapCountsTest, DroppedChoicesChooseNothing) {
  const std::vector<std::uint16_t> data = {
      0, IdRows::dropped, 2, IdRows::dropped, IdRows::dropped, IdRows::dropped, 2, 0, 1};
  const IdRows ids(data.data(), 2, 3, 3);
  const std::vector<TokenRun> runs = {{0, 3}};
  const SwapCounts counts({0, 0, 1}, 2, ids, runs);
  EXPECT_THAT(counts.touching(), ElementsAre(2, 2));
  EXPECT_EQ(counts.choosing(0), 2);
  EXPECT_EQ(counts.alone(0), 1);
  EXPECT_EQ(counts.alone_with(2, 0), 2);
}

TEST(SwapCountsTest, CountsARowWithSeveralOfAGroupAndADroppedChoice) {
  const std::vector<std::uint16_t> data = {0, 1, IdRows::dropped, 3, 2};
  const SwapCounts counts({0, 0, 0, 1}, 2, IdRows(data.data(), 2, 5, 1),
                          std::vector<TokenRun>{{0, 1}});
  EXPECT_THAT(counts.touching(), ElementsAre(1, 1));
  EXPECT_EQ(counts.with_group(3, 0), 1);
  EXPECT_EQ(counts.with_group(0, 1), 1);
  EXPECT_EQ(counts.alone(0), 0);
  EXPECT_EQ(counts.alone_with(3, 2), 1);
}

// The example of Fig. 7: four experts in two groups; the paper prints Z of four pairs.
TEST(SwapCountsTest, PublishedExample) {
  const RoutedLayer routed(4, 2, 1, {0, 2, 0, 2, 1, 3, 0, 1});
  const SwapCounts counts({0, 0, 1, 1}, 2, routed.ids(), routed.all());
  EXPECT_THAT(counts.touching(), ElementsAre(4, 3));
  EXPECT_THAT(after(counts, 0, 1), ElementsAre(4, 3));
  EXPECT_THAT(after(counts, 0, 2), ElementsAre(4, 4));
  EXPECT_THAT(after(counts, 0, 3), ElementsAre(2, 3));
  EXPECT_THAT(after(counts, 1, 2), ElementsAre(3, 2));
  EXPECT_THAT(after(counts, 1, 3), ElementsAre(4, 4));
  EXPECT_THAT(after(counts, 2, 3), ElementsAre(4, 3));
}

}  // namespace
}  // namespace moesim
