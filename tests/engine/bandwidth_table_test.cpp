// SPDX-License-Identifier: Apache-2.0
// Links that yield less to small exchanges, at every fidelity.
#include "sim/topology/reader.h"
#include "tests/engine/backends.h"

namespace moesim::test {
namespace {

// 1 MB in 1 ms, 4 MB in 2 ms.
Topology measured_switch() {
  return std::move(
      parse_topology("nodes: 1\nnode:\n  gpu: test\n  gpus: 4\n  nvlink:\n    kind: switch\n"
                     "    latency: 0 us\n"
                     "    bandwidth: [{size: 1 MB, rate: 1 GB/s}, {size: 4 MB, rate: 2 GB/s}]\n",
                     "t.yaml")
          .topology);
}

class Measured : public testing::TestWithParam<BackendCase> {
 protected:
  Timeline run(const Plan& plan) {
    const Topology topology = measured_switch();
    return GetParam().make(topology, test_gpus(4))->run(plan);
  }
  double ms(const std::vector<Transfer>& transfers) {
    PlanWriter w(4);
    w.exchange({0, 1, 2, 3}, transfers);
    return run(w.plan()).makespan.value * 1e3;
  }
};
INSTANTIATE_TEST_SUITE_P(All, Measured,
                         testing::Values(port_case, served_case, flow_case, together_case,
                                         simgrid_case, analytic_case),
                         [](const auto& one) { return one.param.name; });

TEST_P(Measured, TakesTheTimeOfTheTable) {
  EXPECT_NEAR(ms({{0, 1, 1'000'000}}), 1, 1e-5);
  EXPECT_NEAR(ms({{0, 1, 4'000'000}}), 2, 1e-5);
  EXPECT_NEAR(ms({{0, 1, 2'500'000}}), 1.5, 1e-5);
}

TEST_P(Measured, LooksAtAllBytesOfTheExchangeOnALink) {
  EXPECT_NEAR(ms({{0, 1, 1'250'000}, {0, 2, 1'250'000}}), 1.5, 1e-5);
  EXPECT_NEAR(ms({{1, 0, 2'000'000}, {2, 0, 2'000'000}}), 2, 1e-5);
}

TEST_P(Measured, RecoversAfterASmallExchange) {
  PlanWriter w(4);
  w.exchange({0, 1}, {{0, 1, 1'000'000}});
  w.exchange({0, 1}, {{0, 1, 4'000'000}});
  EXPECT_NEAR(run(w.plan()).makespan.value * 1e3, 3, 1e-5);
}

TEST_P(Measured, ExchangesThatMeetShareTheTimeOfTheLink) {
  // 1 ms and 2 ms of GPU 3's port: together until 2 ms, then only the longer one.
  PlanWriter w(4);
  w.exchange({0, 3}, {{0, 3, 1'000'000}});
  w.exchange({1, 3}, {{1, 3, 4'000'000}});
  Plan plan = w.plan();
  plan.ops[1].stream = Stream::ep_2;
  if (GetParam().name == "analytic") {
    for (Op& op : plan.ops) op.key.layer = 0;  // of one phase
  }
  const Timeline timeline = run(plan);
  if (GetParam().name.starts_with("flow") || GetParam().name == "simgrid") {
    // Flows share the port's bytes, not its time: 0.75 GB/s each, then 2 GB/s.
    EXPECT_NEAR(timeline.ops[0][0].end.value * 1e3, 1 / 0.75, 1e-4);
    EXPECT_NEAR(timeline.makespan.value * 1e3, 1 / 0.75 + 3 / 2.0, 1e-4);
  } else {
    EXPECT_NEAR(timeline.ops[0][0].end.value * 1e3, 2, 1e-5);
    EXPECT_NEAR(timeline.makespan.value * 1e3, 3, 1e-5);
  }
}

TEST(MeasuredFlows, AnExchangeOfSeveralSendersSlowsALinkOnce) {
  PlanWriter w(4);
  w.compute(0, milliseconds(1));
  w.exchange({0, 2, 3}, {{0, 3, 500'000}, {2, 3, 500'000}});
  w.exchange({1, 3}, {{1, 3, 4'000'000}}, {}, Stream::param);
  // GPU 3's port yields 1 GB/s to one exchange and 2 GB/s to the other: 0.5 GB/s to each of three
  // flows, then 2 GB/s to the last 3.5 MB.
  for (const BackendCase& backend : {flow_case, together_case, simgrid_case}) {
    const Timeline timeline = backend.make(measured_switch(), test_gpus(4))->run(w.plan());
    EXPECT_NEAR(timeline.ops[1][0].end.value * 1e3, 1, 1e-4) << backend.name;
    EXPECT_NEAR(timeline.makespan.value * 1e3, 2.75, 1e-4) << backend.name;
  }
}

TEST(MeasuredFlows, AnExchangeSlowsALinkWhileItHasDataThere) {
  PlanWriter w(4);
  w.exchange({0, 1, 2, 3}, {{0, 3, 1'000'000}, {2, 1, 4'000'000}});
  w.exchange({1, 3}, {{1, 3, 4'000'000}}, {}, Stream::param);
  // GPU 3's port yields 1.5 GB/s: 1 MB each to both until 4/3 ms, and then 2 GB/s to the last 3 MB,
  // although the first exchange lasts until 2 ms elsewhere.
  for (const BackendCase& backend : {flow_case, together_case, simgrid_case}) {
    const Timeline timeline = backend.make(measured_switch(), test_gpus(4))->run(w.plan());
    EXPECT_NEAR(timeline.ops[0][2].end.value * 1e3, 2, 1e-4) << backend.name;
    EXPECT_NEAR(timeline.makespan.value * 1e3, 4 / 3.0 + 1.5, 1e-4) << backend.name;
  }
}

}  // namespace
}  // namespace moesim::test
