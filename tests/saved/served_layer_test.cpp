// SPDX-License-Identifier: Apache-2.0
#include "sim/saved/served_layer.h"

#include <gtest/gtest.h>

#include "tests/plan/fixtures.h"

namespace moesim::test {
namespace {

TEST(ServedLayer, DroppedChoicesHaveNoSlotAndThoseBehindThemHave) {
  // GPU 0 holds expert 1, GPU 1 holds experts 0 and 2.
  const Assignment assignment(Placement(3, {{ExpertId(1)}, {ExpertId(0), ExpertId(2)}}), 2);
  LayerRouting routing{7, ids<GpuId>({0, 1}), {ids<ExpertId>({-1, 0}), ids<ExpertId>({2, 1})}, {}};
  routing.assignment = &assignment;
  const ServedLayer layer = served(routing);
  EXPECT_EQ(layer.number, 7);
  EXPECT_EQ(layer.top_k, 2);
  EXPECT_EQ(layer.source, ids<GpuId>({0, 1}));
  EXPECT_EQ(layer.expert, ids<ExpertId>({-1, 0, 2, 1}));
  EXPECT_EQ(layer.slot, ids<SlotId>({-1, 1, 2, 0}));
}

}  // namespace
}  // namespace moesim::test
