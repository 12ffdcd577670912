// SPDX-License-Identifier: Apache-2.0
// The fidelities against each other on random plans.
#include <gmock/gmock.h>

#include <algorithm>
#include <thread>

#include "sim/base/error.h"
#include "tests/engine/backends.h"

namespace moesim::test {
namespace {

/// Random groups of GPUs exchange on both streams, with kernels and waits in between.
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
              below(2) == 0 ? Stream::ep : Stream::param);
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

TEST_P(RandomPlans, PortIsSimgridsOwnSharing) {
  const Topology topology = nodes_of_8(2);
  const Plan plan = random_plan(16, 24, GetParam());
  const Timeline port = port_case.make(topology, test_gpus(16))->run(plan);
  const Timeline served = served_case.make(topology, test_gpus(16))->run(plan);
  expect_equal_times(port, served, 1e-9);
}

TEST_P(RandomPlans, PortIsSimgridsOwnSharingWhereKernelsAndExchangesSlowEachOther) {
  const Topology topology = nodes_of_8(2);
  const Plan plan = random_plan(16, 24, GetParam());
  GpuModels gpus = test_gpus(16);
  auto slower = std::make_shared<GpuModel>(*gpus[0]);
  slower->overlap = {1.5, 2};
  for (std::size_t g = 0; g < 16; g += 3) gpus[g] = slower;
  const Timeline port = port_case.make(topology, gpus)->run(plan);
  const Timeline served = served_case.make(topology, gpus)->run(plan);
  expect_equal_times(port, served, 1e-9);
  EXPECT_NE(port.ops, port_case.make(topology, test_gpus(16))->run(plan).ops);
}

TEST_P(RandomPlans, FlowIsSimgridsOwnModel) {
  const Topology topology = nodes_of_8(2);
  const Plan plan = random_plan(16, 24, GetParam());
  for (const bool together : {false, true}) {
    for (const int peers : {0, 4}) {
      const FlowOptions options{.peers = peers, .together = together};
      const Timeline ours = flow_with("ours", options).make(topology, test_gpus(16))->run(plan);
      const Timeline its = simgrid_with("its", options).make(topology, test_gpus(16))->run(plan);
      expect_equal_times(ours, its, 1e-3);
    }
  }
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

// 128 GPUs take SimGrid a minute: see docs/results/speed.md.
TEST(Fidelity, FlowIsSimgridsOwnModelOnUnevenAllToAlls) {
  for (const int gpus : {32, 64}) {
    const Topology topology = nodes_of_8(gpus / 8);
    std::mt19937 random(7);
    PlanWriter w(gpus);
    w.traffic(all_of(gpus), uneven(all_of(gpus), gpus, 1e6, 8, random));
    const Timeline ours = flow_case.make(topology, test_gpus(gpus))->run(w.plan());
    const Timeline its = simgrid_case.make(topology, test_gpus(gpus))->run(w.plan());
    expect_equal_times(ours, its, 1e-3);
    EXPECT_NEAR(ours.makespan / its.makespan, 1, 2e-4);
  }
}

TEST(Fidelity, FlowSaysBeforehandHowLongItTakesAndThenHowFarItIs) {
  const auto all_to_all = [](int gpus) {
    std::mt19937 random(7);
    PlanWriter w(gpus);
    w.traffic(all_of(gpus), uneven(all_of(gpus), gpus, 1e6, 8, random));
    return w.plan();
  };
  const Topology topology = nodes_of_8(8);
  const Plan plan = all_to_all(64), larger = all_to_all(512);
  const auto flow = make_flow_backend(topology, test_gpus(64));
  const PricedPlan priced(plan, topology);
  EXPECT_LT(flow->likely_time(priced).value, 0.1);
  const Topology wide = nodes_of_8(64);
  EXPECT_GT(flow->likely_time(PricedPlan(larger, wide)).value, 0.5);
  std::vector<double> parts;
  flow->watch([&](double part) { parts.push_back(part); });
  flow->run(priced);
  ASSERT_EQ(parts.size(), 3);
  EXPECT_TRUE(std::ranges::is_sorted(parts));
  EXPECT_GT(parts.front(), 0);
  EXPECT_LE(parts.back(), 1);
}

// GPU 2 joins at 2 ms. 50 MB take 1 ms, a route 5 us.
class LateJoiner : public testing::Test {
 protected:
  Timeline run(const BackendCase& backend) {
    PlanWriter w(4);
    const OpId slow = w.compute(2, milliseconds(2));
    w.exchange({0, 1, 2, 3}, {{0, 1, 50'000'000}, {2, 1, 25'000'000}}, {slow});
    w.compute(0, milliseconds(0.1), {OpId(1)});
    return backend.make(star(4), test_gpus(4))->run(w.plan());
  }
  static std::vector<double> ends_ms(const Timeline& timeline) {
    std::vector<double> ends;
    for (const Interval& interval : timeline.ops[1]) ends.push_back(interval.end.value * 1e3);
    return ends;
  }
};

TEST_F(LateJoiner, HoldsUpEverybodyWhereExchangesBeginTogether) {
  for (const BackendCase& backend : {port_case, together_case}) {
    const Timeline timeline = run(backend);
    EXPECT_THAT(ends_ms(timeline), testing::Each(testing::DoubleNear(3.505, 1e-5)));
    EXPECT_NEAR(timeline.ops[2][0].end.value, 3.605e-3, 1e-8);
  }
}

TEST_F(LateJoiner, HoldsUpItsPeersAloneAtFlow) {
  const Timeline timeline = run(flow_case);
  const auto near = [](double ms) { return testing::DoubleNear(ms, 1e-5); };
  EXPECT_THAT(ends_ms(timeline),
              testing::ElementsAre(near(1.005), near(2.505), near(2.505), near(0)));
  EXPECT_NEAR(timeline.ops[2][0].end.value, 1.105e-3, 1e-8);  // GPU 0 continues with its kernel
}

TEST_P(RandomPlans, AtFlowAGpuIsThroughOnceItsPeersHaveComeAndItsBytesHaveMoved) {
  const Topology topology = nodes_of_8(2);
  const Plan plan = random_plan(16, 24, GetParam());
  const Timeline flow = flow_case.make(topology, test_gpus(16))->run(plan);
  for (std::size_t id = 0; id < plan.ops.size(); ++id) {
    if (plan.ops[id].exchange() == nullptr) continue;
    const GroupTraffic moved = plan.ops[id].traffic();
    const auto& gpus = plan.ops[id].group;
    for (std::size_t i = 0; i < gpus.size(); ++i) {
      // A GPU cannot be through before each peer has joined, and what it sends or receives bounds
      // by itself its time from when it joined.
      Seconds joined = flow.ops[id][i].start;
      std::int64_t sent = 0, received = 0;
      for (std::size_t j = 0; j < gpus.size(); ++j) {
        if (i == j) continue;
        const Bytes out = moved.at(gpus[i], gpus[j]);
        const Bytes in = moved.at(gpus[j], gpus[i]);
        if (out + in > Bytes(0)) joined = std::max(joined, flow.ops[id][j].start);
        const bool nvlink = gpus[i].value / 8 == gpus[j].value / 8;
        if (!nvlink) sent += out.value, received += in.value;
      }
      const double least = static_cast<double>(std::max(sent, received)) / 50e9;
      EXPECT_GE(flow.ops[id][i].end, joined) << "op " << id << ", GPU " << gpus[i].value;
      EXPECT_GE(flow.ops[id][i].end.value, (flow.ops[id][i].start.value + least) * (1 - 1e-3));
    }
  }
}

// A kernel of 0.4 ms takes 0.6 ms in an exchange of 1.005 ms, which does half of these meanwhile.
TEST(Fidelity, KernelsAndExchangesSlowEachOtherAtAllOfThem) {
  PlanWriter w(2);
  w.compute(0, milliseconds(0.4));
  w.exchange({0, 1}, {{0, 1, 50'000'000}});
  GpuModels gpus = test_gpus(2);
  auto slowed = std::make_shared<GpuModel>(*gpus[0]);
  slowed->overlap = {1.5, 2};
  gpus.assign(2, slowed);
  const Topology topology = star(2);
  for (const BackendCase& backend :
       {port_case, served_case, flow_case, together_case, analytic_case}) {
    const Timeline timeline = backend.make(topology, gpus)->run(w.plan());
    EXPECT_NEAR(timeline.ops[0][0].end.value, 0.6e-3, 1e-8) << backend.name;
    EXPECT_NEAR(timeline.ops[1][0].end.value, 1.305e-3, 1e-8) << backend.name;
    EXPECT_NEAR(timeline.ops[1][1].end.value, backend.together ? 1.305e-3 : 1.005e-3, 1e-8)
        << backend.name;
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
