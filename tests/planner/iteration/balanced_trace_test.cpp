// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "sim/trace/id_counts.h"
#include "tests/planner/iteration/fixtures.h"

namespace moesim {
namespace {

TEST(BalancedTrace, ChoosesDifferentExpertsAllAlike) {
  const std::int64_t tokens = 20'000;
  const RoutingTrace trace = test::tokens_for(test::tiny(), tokens, 1000);
  for (int layer = 0; layer < 4; ++layer) {
    const IdRows ids = trace.step(0).ids(layer);
    std::vector<int> counts(32);
    for (std::int64_t t = 0; t < tokens; ++t) {
      std::set<int> of_token;
      for (int k = 0; k < 4; ++k) {
        ++counts[static_cast<std::size_t>(ids.at(t, k))];
        of_token.insert(ids.at(t, k));
      }
      ASSERT_EQ(of_token.size(), 4u);
    }
    // 2,500 of each; six standard deviations are 280.
    EXPECT_NEAR(*std::ranges::min_element(counts), 2500, 280);
    EXPECT_NEAR(*std::ranges::max_element(counts), 2500, 280);
  }
  EXPECT_EQ(trace.step(0).sequence_lengths().size(), 20u);
}

TEST(BalancedTrace, KeepsToTheGroupsOfTheGate) {
  const std::int64_t tokens = 20'000;
  TraceInfo info;
  info.experts = 32;
  info.top_k = 6;
  info.layers = {0};
  const RoutingTrace trace = balanced_trace(info, tokens, 1000, {8, 3});
  const IdRows ids = trace.step(0).ids(0);
  std::vector<int> counts(32);
  for (std::int64_t t = 0; t < tokens; ++t) {
    std::set<int> of_token, groups;
    for (int k = 0; k < 6; ++k) {
      of_token.insert(ids.at(t, k));
      groups.insert(ids.at(t, k) / 4);
      ++counts[static_cast<std::size_t>(ids.at(t, k))];
    }
    ASSERT_EQ(of_token.size(), 6u);
    ASSERT_EQ(groups.size(), 3u);
  }
  // 3,750 of each; six standard deviations are below 350.
  EXPECT_NEAR(*std::ranges::min_element(counts), 3750, 350);
  EXPECT_NEAR(*std::ranges::max_element(counts), 3750, 350);
}

}  // namespace
}  // namespace moesim
