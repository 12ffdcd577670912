// SPDX-License-Identifier: Apache-2.0
#include "sim/serving/engine/router.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace moesim {
namespace {

RouterOptions of_kind(RouterOptions::Kind kind) {
  RouterOptions options;
  options.kind = kind;
  return options;
}

TEST(Routers, RoundRobinSkipsWhatIsDown) {
  Router router(of_kind(RouterOptions::Kind::round_robin));
  std::vector<TargetLoad> targets(3);
  targets[1].up = false;
  EXPECT_EQ(router.choose(targets, 1), 0);
  EXPECT_EQ(router.choose(targets, 1), 2);
  EXPECT_EQ(router.choose(targets, 1), 0);
  for (TargetLoad& target : targets) target.up = false;
  EXPECT_EQ(router.choose(targets, 1), -1);
}

TEST(Routers, LeastRequestsWeighsThoseThatWait) {
  RouterOptions options = of_kind(RouterOptions::Kind::least_requests);
  const std::vector<TargetLoad> targets = {{true, 1, 0, 0, 0}, {true, 0, 3, 0, 0}};
  EXPECT_EQ(Router(options).choose(targets, 1), 0);
  options.waiting_weight = 4;
  EXPECT_EQ(Router(options).choose(targets, 1), 1);
}

TEST(Routers, TheFirstOfEqualsIsChosen) {
  const std::vector<TargetLoad> targets(3);
  for (const auto kind : {RouterOptions::Kind::least_requests, RouterOptions::Kind::least_tokens}) {
    EXPECT_EQ(Router(of_kind(kind)).choose(targets, 1), 0);
  }
}

TEST(Routers, PrefixesDoNotCountIfTheOtherIsIdle) {
  RouterOptions options = of_kind(RouterOptions::Kind::prefix);
  options.imbalance = 5;
  options.imbalance_ratio = 2;
  options.match = 0.5;
  EXPECT_EQ(Router(options).choose({{true, 0, 0, 0, 0}, {true, 0, 10, 0, 100}}, 100), 0);
  EXPECT_EQ(Router(options).choose({{true, 0, 0, 0, 0}, {true, 0, 5, 0, 100}}, 100), 1);
  EXPECT_EQ(Router(options).choose({{true, 0, 0, 0, 0}, {true, 0, 5, 0, 49}}, 100), 0);
  const TargetLoad down{false, 0, 0, 0, 0};
  EXPECT_EQ(Router(options).choose({down, {true, 0, 0, 0, 0}, {true, 0, 10, 0, 100}}, 100), 1);
}

TEST(Routers, TheFirstMayHaveTheLongestPrefix) {
  const RouterOptions options = of_kind(RouterOptions::Kind::prefix);
  EXPECT_EQ(Router(options).choose({{true, 0, 1, 0, 100}, {true, 0, 0, 0, 0}}, 100), 0);
  EXPECT_EQ(Router(options).choose({{false, 0, 1, 0, 100}, {false, 0, 0, 0, 0}}, 100), -1);
}

TEST(Routers, LeastTokens) {
  Router router(of_kind(RouterOptions::Kind::least_tokens));
  EXPECT_EQ(router.choose({{true, 0, 0, 500, 0}, {true, 9, 9, 400, 0}}, 1), 1);
}

TEST(Routers, RandomReachesAllThatAreUpEquallyOften) {
  Router router(of_kind(RouterOptions::Kind::random)), again(of_kind(RouterOptions::Kind::random));
  std::vector<TargetLoad> targets(4);
  targets[2].up = false;
  std::vector<int> chosen(4);
  int repeated = 0, before = -1;
  for (int i = 0; i < 3000; ++i) {
    const int target = router.choose(targets, 1);
    EXPECT_EQ(target, again.choose(targets, 1));
    ++chosen[static_cast<std::size_t>(target)];
    repeated += target == before ? 1 : 0;
    before = target;
  }
  EXPECT_EQ(chosen[2], 0);
  for (const int up : {0, 1, 3}) EXPECT_NEAR(chosen[static_cast<std::size_t>(up)], 1000, 100);
  EXPECT_NEAR(repeated, 1000, 100) << "it does not go round";
  for (TargetLoad& target : targets) target.up = false;
  EXPECT_EQ(router.choose(targets, 1), -1);
}

TEST(Routers, FrontEndsTakeTurnsEachWithARoundOfItsOwn) {
  RouterOptions options = of_kind(RouterOptions::Kind::round_robin);
  options.front_ends = 7;
  const std::vector<TargetLoad> targets(3);
  Router router(options), same(options);
  std::vector<int> chosen;
  for (int i = 0; i < 7 * 6; ++i) chosen.push_back(router.choose(targets, 1));
  std::set<int> starts;
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    EXPECT_EQ(chosen[i], same.choose(targets, 1));
    if (i < 7) {
      starts.insert(chosen[i]);
    } else {
      EXPECT_EQ(chosen[i], (chosen[i - 7] + 1) % 3);
    }
  }
  EXPECT_GT(starts.size(), 1U) << "not all begin at one";
  for (int target = 0; target < 3; ++target) {
    EXPECT_EQ(std::ranges::count(chosen, target), 14) << "after whole rounds of each";
  }
}

TEST(Routers, TheLongestPrefixUnlessItIsShortOrItsTargetIsFull) {
  Router router(of_kind(RouterOptions::Kind::prefix));
  EXPECT_EQ(router.choose({{true, 0, 2, 0, 40}, {true, 0, 5, 0, 60}}, 100), 1);
  EXPECT_EQ(router.choose({{true, 0, 2, 0, 0}, {true, 0, 5, 0, 40}}, 100), 0) << "less than half";
  EXPECT_EQ(router.choose({{true, 0, 10, 0, 0}, {true, 0, 80, 0, 90}}, 100), 0) << "imbalanced";
  EXPECT_EQ(router.choose({{true, 0, 5, 0, 60}, {true, 0, 2, 0, 60}}, 100), 1) << "equal prefixes";
}

}  // namespace
}  // namespace moesim
