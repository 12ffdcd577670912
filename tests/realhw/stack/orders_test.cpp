// SPDX-License-Identifier: Apache-2.0
// What the whole host program computes does not depend on the order in which hosts, streams and
// messages have their turns.
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/realhw/emulated/emulated.h"
#include "tests/realhw/stack/stack_case.h"

namespace moesim {
namespace {

/// $MOESIM_ORDERS, over all cases.
std::uint64_t orders() {
  const char* wanted = std::getenv("MOESIM_ORDERS");
  return wanted == nullptr ? 48 : std::strtoull(wanted, nullptr, 10);
}

struct StackPolicy {
  std::string name;
  int nodes = 2, gpus = 2;
};
const std::vector<StackPolicy> policies = {{"alltoall"}, {"laer"}, {"hiermoe-hd2"}, {"hybridep"}};

class StackOrders : public testing::TestWithParam<StackPolicy> {};

TEST_P(StackOrders, ComputeWhatTheRoutingSays) {
  const auto& [name, nodes, gpus] = GetParam();
  StackCase c(name, nodes, gpus);
  emulated::watch_every(31);
  std::uint64_t decisions = 0;
  for (std::uint64_t seed = 1; seed <= orders() / policies.size(); ++seed) {
    const StackCase::Result result = c.run(seed);
    decisions += result.end.decisions;
    ASSERT_EQ(result.end.text(), "") << "order " << seed;
    ASSERT_GT(result.compared.outputs, 0);
    ASSERT_EQ(result.compared.wrong(), 0) << "order " << seed;
  }
  emulated::watch_every(1);
  RecordProperty("decisions", std::to_string(decisions));
}

INSTANTIATE_TEST_SUITE_P(All, StackOrders, testing::ValuesIn(policies), [](const auto& option) {
  std::string name = option.param.name;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

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
