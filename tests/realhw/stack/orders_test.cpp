// SPDX-License-Identifier: Apache-2.0
// What the whole host program computes does not depend on the order in which hosts, streams and
// messages have their turns.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/realhw/emulated/emulated.h"
#include "tests/realhw/stack/stack_case.h"

namespace moesim {
namespace {

struct StackPolicy {
  std::string name;
  int nodes = 2, gpus = 2;
};
/// Those of two ranks take a third of the time.
const std::vector<StackPolicy> policies = {{"alltoall"}, {"laer"},        {"hiermoe-hd2"},
                                           {"hybridep"}, {"alltoall", 1}, {"hybridep", 1}};

class StackOrders : public testing::TestWithParam<StackPolicy> {};

TEST_P(StackOrders, ComputeWhatTheRoutingSays) {
  const auto& [name, nodes, gpus] = GetParam();
  StackCase c(name, nodes, gpus);
  emulated::watch_every(31);
  std::uint64_t decisions = 0;
  const std::vector<std::uint64_t> orders = orders_of_case(policies.size(), 48);
  for (const std::uint64_t seed : orders) {
    const StackCase::Result result = c.run(seed);
    decisions += result.end.decisions;
    ASSERT_EQ(result.end.text(), "") << "order " << seed;
    ASSERT_GT(result.compared.outputs, 0);
    ASSERT_EQ(result.compared.wrong(), 0) << "order " << seed;
  }
  emulated::watch_every(1);
  RecordProperty("decisions", std::to_string(decisions));
}

std::string name_of_case(const testing::TestParamInfo<StackPolicy>& option) {
  const auto& [policy, nodes, gpus] = option.param;
  std::string name = fmt::format("{}_{}x{}", policy, nodes, gpus);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(All, StackOrders, testing::ValuesIn(policies), name_of_case);

/// The same seed is the same run, so that a failure can be looked at again.
TEST(StackOrder, IsTheSameForTheSameSeed) {
  StackCase c("alltoall");
  const StackCase::Result one = c.run(8), same = c.run(8), other = c.run(14);
  EXPECT_EQ(one.end.decisions, same.end.decisions);
  EXPECT_EQ(one.end.last_end_s, same.end.last_end_s);
  EXPECT_NE(one.end.last_end_s, other.end.last_end_s);
}

}  // namespace
}  // namespace moesim
