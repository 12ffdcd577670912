// SPDX-License-Identifier: Apache-2.0
// Islands of random plans: who is with whom, by a search over all ops.
#include "sim/report/islands.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <utility>

namespace moesim::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Op op_of(Group group, Stream stream = Stream::compute) {
  Op op;
  op.group = std::move(group);
  op.stream = stream;
  return op;
}

bool is_kernel(const Op& op) { return op.stream == Stream::compute; }

TEST(Islands, AreSetsOfGpusThatNoCountedOpJoins) {
  Plan plan;
  plan.gpus = 5;
  plan.ops = {op_of({GpuId(3), GpuId(4)}), op_of({GpuId(0)}),
              op_of({GpuId(0), GpuId(3)}, Stream::pp_up), op_of({GpuId(1), GpuId(3)}),
              op_of(Group())};
  const std::vector<Island> all = islands(plan, is_kernel);
  ASSERT_EQ(all.size(), 3U);
  EXPECT_THAT(all[0].gpus, ElementsAre(GpuId(0)));
  EXPECT_THAT(all[0].ops, ElementsAre(1));
  EXPECT_THAT(all[1].gpus, ElementsAre(GpuId(1), GpuId(3), GpuId(4)));
  EXPECT_THAT(all[1].ops, ElementsAre(0, 3));
  EXPECT_THAT(all[2].gpus, ElementsAre(GpuId(2)));
  EXPECT_THAT(all[2].ops, IsEmpty());
}

/// [GPU] the least GPU that it is joined to.
std::vector<int> searched(const Plan& plan) {
  std::vector<int> least(static_cast<std::size_t>(plan.gpus));
  for (int g = 0; g < plan.gpus; ++g) least[static_cast<std::size_t>(g)] = g;
  for (int round = 0; round < plan.gpus; ++round) {
    for (const Op& op : plan.ops) {
      if (!is_kernel(op)) continue;
      int of_op = plan.gpus;
      for (const GpuId gpu : op.group) of_op = std::min(of_op, least[gpu.index()]);
      for (const GpuId gpu : op.group) least[gpu.index()] = of_op;
    }
  }
  return least;
}

Plan drawn_plan(std::mt19937& random) {
  Plan plan;
  plan.gpus = 1 + static_cast<int>(random() % 30);
  for (auto i = random() % 40; i > 0; --i) {
    std::vector<GpuId> gpus;
    for (int g = 0; g < plan.gpus; ++g) {
      if (random() % 20 == 0) gpus.emplace_back(g);
    }
    plan.ops.push_back(op_of(gpus, random() % 4 == 0 ? Stream::pp_up : Stream::compute));
  }
  return plan;
}

TEST(Islands, OfRandomPlansHaveEveryGpuAndCountedOpOnce) {
  std::mt19937 random(7);
  for (int draw = 0; draw < 200; ++draw) {
    const Plan plan = drawn_plan(random);
    const std::vector<int> least = searched(plan);
    std::size_t gpus = 0, ops = 0;
    for (const Island& island : islands(plan, is_kernel)) {
      for (const GpuId gpu : island.gpus) {
        EXPECT_EQ(least[gpu.index()], island.gpus.front().value);
      }
      for (const std::uint32_t op : island.ops) {
        EXPECT_EQ(least[plan.ops[op].group.front().index()], island.gpus.front().value);
      }
      EXPECT_TRUE(std::ranges::is_sorted(island.ops));
      gpus += island.gpus.size();
      ops += island.ops.size();
    }
    EXPECT_EQ(gpus, static_cast<std::size_t>(plan.gpus));
    EXPECT_EQ(static_cast<std::ptrdiff_t>(ops), std::ranges::count_if(plan.ops, [](const Op& op) {
                return is_kernel(op) && !op.group.empty();
              }));
  }
}

}  // namespace
}  // namespace moesim::test
