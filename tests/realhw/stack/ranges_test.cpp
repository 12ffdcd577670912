// SPDX-License-Identifier: Apache-2.0
// A profiler sees every op of a plan by its name.
#include "tests/realhw/emulated/ranges.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/plan/check.h"
#include "tests/realhw/stack/stack_case.h"

namespace moesim {
namespace {

TEST(StackRanges, AreNamedAsTheOpsOfThePlan) {
  StackCase c("alltoall");
  emulated::take_ranges();
  EXPECT_EQ(c.run(1).end.text(), "");
  const auto names = emulated::take_ranges();
  const Plan& plan = c.real.planned->plan;
  std::vector<std::string> expected;
  for (OpId op(0); op.index() < plan.ops.size(); ++op.value) {
    expected.push_back(fmt::format("{} of layer {}", describe(plan, op), plan[op].key.layer));
  }
  EXPECT_THAT(names, testing::UnorderedElementsAreArray(expected));
  EXPECT_EQ(emulated::current_range(), "");
}

}  // namespace
}  // namespace moesim
