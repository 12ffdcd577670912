// SPDX-License-Identifier: Apache-2.0
// The fidelities against each other on random plans.
#include <algorithm>
#include <thread>

#include "sim/base/error.h"
#include "tests/engine/backends.h"

namespace moesim::test {
namespace {

/// Random groups of GPUs exchange on both lanes, with kernels and waits in between.
Plan random_plan(int gpus, int exchanges, unsigned seed) {
  std::mt19937 random(seed);
  const auto below = [&](int n) { return std::uniform_int_distribution<int>(0, n - 1)(random); };
  PlanWriter w(gpus);
  std::vector<int> ranks = all_of(gpus);
  for (int i = 0; i < exchanges; ++i) {
    std::shuffle(ranks.begin(), ranks.end(), random);
    std::vector<int> group(ranks.begin(), ranks.begin() + 2 + below(gpus - 1));
    std::sort(group.begin(), group.end());
    std::vector<OpId> after;
    for (int gpu : group) {
      if (below(3) == 0) after.push_back(w.compute(gpu, Seconds(1e-6 * below(2000))));
    }
    w.traffic(group, uneven(group, gpus, 2e6, 4, random), after,
              below(2) == 0 ? Lane::token : Lane::param);
  }
  return w.plan();
}

void expect_equal_times(const Timeline& a, const Timeline& b, double relative) {
  ASSERT_EQ(a.ops.size(), b.ops.size());
  for (std::size_t op = 0; op < a.ops.size(); ++op) {
    for (std::size_t i = 0; i < a.ops[op].size(); ++i) {
      const double allowed = relative * a.makespan.value;
      ASSERT_NEAR(a.ops[op][i].start.value, b.ops[op][i].start.value, allowed) << "op " << op;
      ASSERT_NEAR(a.ops[op][i].end.value, b.ops[op][i].end.value, allowed) << "op " << op;
    }
  }
}

class RandomPlans : public testing::TestWithParam<unsigned> {};
INSTANTIATE_TEST_SUITE_P(Seeds, RandomPlans, testing::Range(1U, 13U));

TEST_P(RandomPlans, PruningChangesNoTime) {
  const Topology topology = nodes_of_8(2);
  const Plan plan = random_plan(16, 24, GetParam());
  const Timeline pruned = port_case.make(topology, test_gpus(16))->run(plan);
  const Timeline full = unpruned_case.make(topology, test_gpus(16))->run(plan);
  expect_equal_times(pruned, full, 1e-9);
}

TEST_P(RandomPlans, PortIsClosedFormWhenNothingOverlaps) {
  std::mt19937 random(GetParam());
  PlanWriter w(16);
  for (int i = 0; i < 4; ++i) w.traffic(all_of(16), uneven(all_of(16), 16, 1e6, 8, random));
  const Topology topology = nodes_of_8(2);
  const Timeline port = port_case.make(topology, test_gpus(16))->run(w.plan());
  const Timeline closed = analytic_case.make(topology, test_gpus(16))->run(w.plan());
  expect_equal_times(port, closed, 1e-9);
}

TEST(Fidelity, PortAndFlowAgreeOnUnevenAllToAlls) {
  const Topology topology = nodes_of_8(4);
  for (const double skew : {1.0, 4.0, 32.0}) {
    std::mt19937 random(7);
    PlanWriter w(32);
    w.traffic(all_of(32), uneven(all_of(32), 32, 1e6, skew, random));
    const Timeline port = port_case.make(topology, test_gpus(32))->run(w.plan());
    const Timeline flow = flow_case.make(topology, test_gpus(32))->run(w.plan());
    EXPECT_NEAR(flow.makespan.value / port.makespan.value, 1, 0.02) << "skew " << skew;
  }
}

TEST(Fidelity, GivesTheSameTimesFromSeveralThreads) {
  const Topology topology = nodes_of_8(2);
  const Plan plan = random_plan(16, 24, 1);
  const auto backend = port_case.make(topology, test_gpus(16));
  const Timeline alone = backend->run(plan);
  std::vector<Timeline> together(4);
  {
    std::vector<std::jthread> threads;
    for (Timeline& timeline : together)
      threads.emplace_back([&] { timeline = backend->run(plan); });
  }
  for (const Timeline& timeline : together) EXPECT_EQ(timeline.ops, alone.ops);
}

TEST(Fidelity, RejectsAPlanForAnotherNumberOfGpus) {
  const Topology topology = star(2);
  PlanWriter w(3);
  for (const auto& backend : {port_case, flow_case, analytic_case}) {
    EXPECT_THROW(backend.make(topology, test_gpus(2))->run(w.plan()), Error) << backend.name;
  }
}

}  // namespace
}  // namespace moesim::test
