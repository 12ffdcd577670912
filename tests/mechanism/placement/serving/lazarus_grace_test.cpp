// SPDX-License-Identifier: Apache-2.0
// Lazarus and GRACE as placements: copies by load, groups by co-activation.
#include <gtest/gtest.h>

#include <set>
#include <utility>

#include "sim/base/unsuitable.h"
#include "tests/mechanism/placement/serving/serving_play.h"

namespace moesim {
namespace {

TEST(LazarusPlacement, ReplicatesByLoadWithTwoOfEach) {
  ServingPlay play("{kind: lazarus, interval: 1, first: 1, window: 1, slots_per_gpu: 3}", four_gpus,
                   4);
  play.show_counts({40, 8, 8, 8});
  const LayerDecision d = play.show_counts({40, 8, 8, 8});
  std::vector<std::set<int>> holders(4);
  const Experts table = experts_of(d);
  for (std::size_t g = 0; g < 4; ++g) {
    for (const int e : table[g]) holders[static_cast<std::size_t>(e)].insert(static_cast<int>(g));
  }
  EXPECT_EQ(holders[0].size(), 4u);
  for (int e = 1; e < 4; ++e) EXPECT_GE(holders[static_cast<std::size_t>(e)].size(), 2u);
  EXPECT_THROW(ServingPlay("{kind: lazarus, slots_per_gpu: 1}", four_gpus, 4), Unsuitable);
}

TEST(GracePlacement, GroupsWhatGoesTogetherAndCopiesTheHot) {
  // 6 tokens with 0 and 3, 2 with 1 and 2.
  const std::vector<int> ids = {0, 3, 3, 0, 0, 3, 1, 2, 0, 3, 0, 3, 2, 1, 3, 0};
  ServingPlay play("grace", pair_of_gpus, 4, 2);
  EXPECT_EQ(experts_of(play.show(ids)), (Experts{{0, 1}, {2, 3}}));
  const LayerDecision d = play.show(ids);
  Experts table = experts_of(d);
  if (table[0].size() > table[1].size()) std::swap(table[0], table[1]);
  // 12 against 4: one copy each of 0 and 3, whose 6 do not exceed the half.
  EXPECT_EQ(table, (Experts{{0, 3}, {1, 2, 0, 3}}));
  EXPECT_TRUE(d.migrate.empty());  // profiled offline: nothing has to move
  EXPECT_EQ(experts_of(play.show({0, 1, 0, 1, 0, 1, 0, 1})), experts_of(d));  // it stays
}

TEST(GracePlacement, MovesWhatItProfilesOnline) {
  const std::vector<int> ids = {0, 3, 3, 0, 0, 3, 1, 2, 0, 3, 0, 3, 2, 1, 3, 0};
  ServingPlay play("{kind: grace, profiling: online}", pair_of_gpus, 4, 2);
  play.show(ids);
  const LayerDecision d = play.show(ids);
  // The one GPU had 0 and 1, the other 2 and 3; now one has 0 and 3, the other all: two come to it.
  EXPECT_EQ(bytes(d.migrate, 0, 1) + bytes(d.migrate, 1, 0), 3 * expert);
}

TEST(LazarusPlacement, NodesThatFailHoldAnExpertOnce) {
  // Two nodes of two GPUs; six experts, twice each, in 2 x 6 slots.
  ServingPlay play("{kind: lazarus, failing: node, slots_per_gpu: 3, interval: 1, first: 1}",
                   {2, 2, 4}, 6);
  for (const std::vector<int>& counts :
       {std::vector<int>{2, 2, 2, 2, 2, 2}, {9, 1, 1, 1, 2, 2}, {1, 1, 1, 2, 2, 9}}) {
    const Experts table = experts_of(play.show_counts(counts));
    for (std::size_t node = 0; node < 2; ++node) {
      std::multiset<int> held(table[2 * node].begin(), table[2 * node].end());
      held.insert(table[2 * node + 1].begin(), table[2 * node + 1].end());
      EXPECT_EQ(held, (std::multiset<int>{0, 1, 2, 3, 4, 5}));
      EXPECT_EQ(table[2 * node].size(), 3u);
    }
  }
}

}  // namespace
}  // namespace moesim
