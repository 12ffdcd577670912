// SPDX-License-Identifier: Apache-2.0
// A slice keeps the order of its ops, also through ops that are left out.
#include "sim/plan/slice.h"

#include <gtest/gtest.h>

#include "sim/plan/op_order.h"
#include "sim/plan/part_graph.h"
#include "tests/plan/fixtures.h"

namespace moesim::test {
namespace {

ByteMatrix nothing(int members = 2) { return matrix(members, 1, {}); }

// 0 send -> 1 sort on GPU 0 -> 2 back; 3 sort on GPU 1 -> 2.
Plan there_and_back() {
  Plan plan{"plan", 2, {}};
  plan.add(exchange("send", {0, 1}, nothing()));
  plan.add(kernel("sort", 0, {0}));
  plan.add(exchange("back", {0, 1}, nothing(), {1, 3}));
  plan.add(kernel("sort", 1, {0}));
  return plan;
}

TEST(Slice, OfEverythingIsThePlanWithItsStreamsSpelledOut) {
  const Plan plan = there_and_back();
  const Plan same = slice(plan, ids<OpId>({0, 1, 2, 3}));
  EXPECT_EQ(same.ops.size(), 4u);
  EXPECT_EQ(dependencies(same), dependencies(plan));
}

TEST(Slice, WaitsThroughWhatIsLeftOut) {
  const Plan exchanges = slice(there_and_back(), ids<OpId>({0, 2}));
  EXPECT_EQ(exchanges[OpId(1)].label, "back");
  EXPECT_EQ(exchanges[OpId(1)].after, ids<OpId>({0}));
  check_plan(exchanges);
}

TEST(Slice, WaitsThroughSeveralThatAreLeftOut) {
  // 0 sort -> 1 send -> 2 wait -> 3 back -> 4 sort, each on a stream of its own.
  Plan plan{"plan", 1, {}};
  plan.add(kernel("sort", 0));
  plan.add(exchange("send", {0}, nothing(1), {0}));
  plan.add(kernel("wait", 0, {1}));
  plan.add(exchange("back", {0}, nothing(1), {2}));
  plan.add(kernel("sort", 0, {3}));
  plan.ops[2].stream = plan.ops[4].stream = Stream::copy;
  plan.ops[3].stream = Stream::param;
  EXPECT_EQ(slice(plan, ids<OpId>({0, 4}))[OpId(1)].after, ids<OpId>({0}));
  EXPECT_EQ(slice(plan, ids<OpId>({0, 3, 4}))[OpId(2)].after, ids<OpId>({0, 1}));
  EXPECT_EQ(slice(plan, ids<OpId>({0, 2, 4}))[OpId(1)].after, ids<OpId>({0}));
}

TEST(PartGraph, HasAnExchangeOnceAndAKernelPerMember) {
  Plan plan{"plan", 2, {}};
  plan.add(kernels("sort", {0, 1}));
  plan.add(exchange("move", {0, 1}, nothing(), {0}));
  plan.add(kernels("reduce", {0, 1}, {1}));
  const PartGraph graph(plan);
  EXPECT_EQ(graph.size(), 5u);
  const PartId move = graph.part(OpId(1), 0);
  EXPECT_EQ(graph.part(OpId(1), 1), move);
  EXPECT_EQ(graph.op(move), OpId(1));
  EXPECT_EQ(graph.before(move), ids<PartId>({0, 1}));
  EXPECT_EQ(graph.op(graph.part(OpId(2), 1)), OpId(2));
  EXPECT_EQ(graph.before(graph.part(OpId(2), 1)), ids<PartId>({1, 2}));  // and the stream
  EXPECT_EQ(graph.order(), ids<PartId>({0, 1, 2, 3, 4}));
}

// 0 send on GPU 0 -> 1 sort on GPUs 0 and 1, by itself on each -> 2 move on GPU 1 -> 3 back.
// What GPU 1 does waits for nothing of GPU 0.
TEST(Slice, TakesNoOrderFromAnotherGpuOfAGroup) {
  Plan plan{"plan", 2, {}};
  plan.add(kernels("send", {0}));
  plan.add(kernels("sort", {0, 1}, {0}));
  plan.add(exchange("move", {1}, nothing(1), {1}));
  Op back = exchange("back", {0, 1}, nothing(), {2});
  back.stream = Stream::param;
  plan.add(std::move(back));
  OpOrder order(plan);
  EXPECT_TRUE(order.precedes(OpId(0), OpId(1), GpuId(0)));
  EXPECT_FALSE(order.precedes(OpId(0), OpId(3), GpuId(0)));
  EXPECT_TRUE(order.precedes(OpId(1), OpId(3), GpuId(1)));
  EXPECT_FALSE(order.precedes(OpId(1), OpId(3), GpuId(0)));
  EXPECT_FALSE(order.precedes(OpId(2), OpId(3), GpuId(0)));  // which takes no part in the move
  EXPECT_FALSE(order.precedes(OpId(1), OpId(2), GpuId(0)));
  EXPECT_TRUE(slice(plan, ids<OpId>({0, 3}))[OpId(1)].after.empty());
}

TEST(Slice, DropsOrdersBetweenGpusThatNothingCarries) {
  Plan plan = there_and_back();
  plan.add(kernel("unpermute", 1, {2}));
  const Plan kernels = slice(plan, ids<OpId>({1, 3, 4}));
  EXPECT_TRUE(kernels[OpId(1)].after.empty());
  EXPECT_EQ(kernels[OpId(2)].after, ids<OpId>({1}));  // GPU 1's sort, not GPU 0's
  check_plan(kernels);
}

}  // namespace
}  // namespace moesim::test
