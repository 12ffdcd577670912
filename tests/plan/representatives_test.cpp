// SPDX-License-Identifier: Apache-2.0
#include "sim/plan/representatives.h"

#include <gtest/gtest.h>

#include "tests/plan/fixtures.h"

namespace moesim {
namespace {

using test::ids;
using test::kernels;

GpuModels models(int gpus) {
  return GpuModels(static_cast<std::size_t>(gpus), std::make_shared<const GpuModel>());
}

Kernels each(std::initializer_list<int> bytes) {
  std::vector<Kernel> list;
  for (const int b : bytes) list.emplace_back(MemoryBound{Bytes(b), Bytes(b)});
  return Kernels(std::move(list));
}

TEST(Representatives, AreTheFirstOfEveryClass) {
  Plan plan{"p", 4, {}};
  plan.add(kernels("permute", {0, 1, 2, 3}, {}, each({5, 7, 5, 7})));
  EXPECT_EQ(representatives(plan, models(4)).gpus, ids<GpuId>({0, 1}));
  const Plan fewer = plan_of(ids<GpuId>({0, 1}), plan);
  ASSERT_EQ(fewer.ops.size(), 1u);
  EXPECT_EQ(fewer.gpus, 4);
  EXPECT_EQ(fewer.ops[0].group.list(), ids<GpuId>({0, 1}));
  EXPECT_EQ(*fewer.ops[0].kernels(), each({5, 7}));
}

TEST(Representatives, RunTheSameOps) {
  Plan plan{"p", 4, {}};
  plan.add(kernels("permute", {0, 1, 2, 3}, {}, each({5, 5, 5, 5})));
  plan.add(kernels("unpermute", {2, 3}));
  EXPECT_EQ(representatives(plan, models(4)).gpus, ids<GpuId>({0, 2}));
}

TEST(Representatives, OfTwoGpusHaveKernelsOfTheirOwn) {
  Plan plan{"p", 4, {}};
  plan.add(kernels("permute", {0, 1}, {}, each({5, 7})));
  plan.add(kernels("permute", {2, 3}, {}, each({5, 7})));
  EXPECT_TRUE(representatives(plan, models(4)).empty());
}

TEST(Representatives, HaveOneModel) {
  Plan plan{"p", 4, {}};
  plan.add(kernels("permute", {0, 1, 2, 3}));
  GpuModels gpus = models(4);
  gpus[1] = gpus[3] = std::make_shared<const GpuModel>();
  EXPECT_EQ(representatives(plan, gpus).gpus, ids<GpuId>({0, 1}));
}

TEST(Representatives, AreNoneOfClassesThatDifferInSizeOrHaveOneMember) {
  Plan plan{"p", 4, {}};
  plan.add(kernels("permute", {0, 1, 2, 3}, {}, each({5, 5, 5, 7})));
  EXPECT_TRUE(representatives(plan, models(4)).empty());
  Plan apart{"p", 4, {}};
  apart.add(kernels("permute", {0, 1, 2, 3}, {}, each({5, 6, 7, 8})));
  EXPECT_TRUE(representatives(apart, models(4)).empty());
}

}  // namespace
}  // namespace moesim
