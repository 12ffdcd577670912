// SPDX-License-Identifier: Apache-2.0
#include "sim/serving/engine/router.h"

#include <gtest/gtest.h>

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

TEST(Routers, LeastTokens) {
  Router router(of_kind(RouterOptions::Kind::least_tokens));
  EXPECT_EQ(router.choose({{true, 0, 0, 500, 0}, {true, 9, 9, 400, 0}}, 1), 1);
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
